/* What an agent restores after a restart: ended jobs, unfinished jobs, and runners that kept running. */
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/jobs/job_action.h"
#include "shared/base/clock.h"
#include "tests/lib/agent_fixture.h"
#include "tests/lib/both_kernels.h"
#include "tests/lib/inotify_count.h"
#include "tests/unit/unit.h"

static struct reply r;

/* Checks that every event occurs once, in order; progress lines are 1, 2, 3, ... as the runner wrote them. */
static void check_events(struct fixture *f, const char *id)
{
    struct task *t = task_find(&f->agent.jobs, id);
    char line[EVENT_LINE_MAX + 1];
    uint64_t seq = 0, step = 0;
    size_t len;
    off_t at = 0;

    while (journal_next(&t->journal, &at, line, &len)) {
        struct event ev;
        struct err e;

        assert_ok(event_parse_line(&ev, line, len, false, &e));
        assert_int_equal(ev.seq, ++seq);
        if (ev.kind == EVENT_PROGRESS)
            assert_int_equal(ev.step, ++step);
    }
    assert_true(step > 0);
}

/* Work done while there is no agent. */
static void wait_for_end(int pid)
{
    double until = clock_now() + UNIT_WAIT_S;

    while (process_is_running(pid) && clock_now() < until)
        usleep(5000);
    assert_false(process_is_running(pid));
}

static void wait_for_progress(struct fixture *f, const char *id, uint64_t step)
{
    const struct task *t = task_find(&f->agent.jobs, id);
    double until = clock_now() + UNIT_WAIT_S;

    while (t->job.step < step && clock_now() < until)
        fixture_turn(f);
    assert_true(t->job.step >= step);
}

TEST(a_running_runner_is_adopted_without_lost_or_duplicate_events)
{
    struct fixture f = {0};

    fixture_open(&f);
    job_run(&f, "j-abcdef", "forever");
    for (int round = 0; round < 3; round++) {
        wait_for_progress(&f, "j-abcdef", 4 + (uint64_t)round * 4);
        fixture_crash(&f);
        usleep(200000); /* time for the runner to go on */
        fixture_reopen(&f);
        job_until(&f, "j-abcdef", "running");
    }
    wait_for_progress(&f, "j-abcdef", 20);
    assert_int_equal(ask(&f, &r, "POST", "/v1/jobs/j-abcdef/cancel", NULL), 202);
    job_until(&f, "j-abcdef", "cancelled");
    check_events(&f, "j-abcdef");
    fixture_close(&f);
}

/* An agent that cannot open a job's journal starts without the job, while the runner continues. */
TEST(runners_adopted_together_are_followed_by_one_inotify_instance)
{
    struct fixture f = {0};
    char path[256], away[256];

    fixture_open(&f);
    assert_int_equal(inotify_count(), 0);
    job_run(&f, "j-first1", "forever");
    wait_for_progress(&f, "j-first1", 1);
    assert_int_equal(inotify_count(), 1);
    fixture_crash(&f);
    assert_int_equal(inotify_count(), 0);
    snprintf(path, sizeof path, "%s/agent/jobs/j-first1/journal.jsonl", f.folder);
    snprintf(away, sizeof away, "%s/journal.jsonl", f.folder);
    assert_int_equal(rename(path, away), 0);
    assert_int_equal(mkdir(path, 0700), 0);
    fixture_reopen(&f);
    job_run(&f, "j-second", "forever");
    fixture_crash(&f);
    assert_int_equal(rmdir(path), 0);
    assert_int_equal(rename(away, path), 0);
    fixture_reopen(&f);
    assert_int_equal(inotify_count(), 1);
    wait_for_progress(&f, "j-first1", 4);
    wait_for_progress(&f, "j-second", 4);
    assert_int_equal(ask(&f, &r, "POST", "/v1/jobs/j-first1/cancel", NULL), 202);
    job_until(&f, "j-first1", "cancelled");
    assert_int_equal(inotify_count(), 1);
    wait_for_progress(&f, "j-second", task_find(&f.agent.jobs, "j-second")->job.step + 4);
    assert_int_equal(ask(&f, &r, "POST", "/v1/jobs/j-second/cancel", NULL), 202);
    job_until(&f, "j-second", "cancelled");
    assert_int_equal(inotify_count(), 0);
    check_events(&f, "j-first1");
    check_events(&f, "j-second");
    fixture_close(&f);
}

TEST(a_runner_that_finished_during_the_restart_keeps_its_outcome)
{
    struct fixture f = {0};
    int pid;

    fixture_open(&f);
    job_run(&f, "j-abcdef", "ok");
    wait_for_progress(&f, "j-abcdef", 1);
    pid = task_find(&f.agent.jobs, "j-abcdef")->job.pid;
    fixture_crash(&f);
    wait_for_end(pid);
    fixture_reopen(&f);
    job_until(&f, "j-abcdef", "succeeded");
    check_events(&f, "j-abcdef");
    fixture_close(&f);
}

TEST(a_runner_that_died_during_the_restart_is_reported)
{
    struct fixture f = {0};
    int pid;

    fixture_open(&f);
    job_run(&f, "j-abcdef", "unresponsive");
    wait_for_progress(&f, "j-abcdef", 1);
    pid = task_find(&f.agent.jobs, "j-abcdef")->job.pid;
    fixture_crash(&f);
    kill(-pid, SIGKILL);
    wait_for_end(pid);
    fixture_reopen(&f);
    job_until(&f, "j-abcdef", "failed");
    assert_string_equal(task_find(&f.agent.jobs, "j-abcdef")->job.reason, "RunnerDied");
    fixture_close(&f);
}

TEST(a_job_that_a_restart_of_the_machine_ended_was_interrupted)
{
    struct fixture f = {0};
    const struct job *j;
    int pid;

    fixture_open(&f);
    snprintf(f.agent.jobs.boot, sizeof f.agent.jobs.boot, "the boot before");
    job_run(&f, "j-abcdef", "unresponsive");
    wait_for_progress(&f, "j-abcdef", 1);
    pid = task_find(&f.agent.jobs, "j-abcdef")->job.pid;
    fixture_crash(&f);
    kill(-pid, SIGKILL);
    wait_for_end(pid);
    fixture_reopen(&f);
    job_until(&f, "j-abcdef", "failed");
    j = &task_find(&f.agent.jobs, "j-abcdef")->job;
    assert_string_equal(j->reason, "Interrupted");
    assert_string_equal(j->message, "the machine was restarted while it ran");
    fixture_close(&f);
}

TEST(a_process_that_reuses_the_pid_is_not_adopted)
{
    struct fixture f = {0};
    char path[256], *text, *found;
    struct err e;
    size_t len;

    fixture_open(&f);
    job_run(&f, "j-abcdef", "forever");
    wait_for_progress(&f, "j-abcdef", 1);
    kill(-task_find(&f.agent.jobs, "j-abcdef")->job.pid, SIGKILL);
    fixture_crash(&f);
    /* The journal names a live process, this one, with the start time of a dead one. */
    snprintf(path, sizeof path, "%s/agent/jobs/j-abcdef/journal.jsonl", f.folder);
    assert_ok(file_read(&text, &len, path, 1 << 20, &e));
    found = strstr(text, "\"pid\":");
    assert_non_null(found);
    {
        char *rest = strchr(found, ','), *all;

        assert_true(asprintf(&all, "%.*s\"pid\":%d%s", (int)(found - text), text, (int)getpid(), rest) > 0);
        assert_ok(file_write(path, all, strlen(all), 0600, &e));
        free(all);
    }
    free(text);
    fixture_reopen(&f);
    assert_string_equal(task_find(&f.agent.jobs, "j-abcdef")->job.reason, "RunnerDied");
    fixture_close(&f); /* and this process is still alive */
}

TEST(a_runner_that_corrupted_its_event_file_is_stopped)
{
    struct fixture f = {0};
    char path[256];

    fixture_open(&f);
    job_run(&f, "j-abcdef", "forever");
    wait_for_progress(&f, "j-abcdef", 1);
    fixture_crash(&f);
    snprintf(path, sizeof path, "%s/agent/jobs/j-abcdef/run/events.jsonl", f.folder);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(symlink("/dev/zero", path), 0);
    fixture_reopen(&f);
    job_until(&f, "j-abcdef", "failed");
    assert_string_equal(task_find(&f.agent.jobs, "j-abcdef")->job.reason, "Internal");
    fixture_close(&f);
}

TEST(a_ready_runner_ends_with_its_agent_and_fails_its_job)
{
    struct fixture f = {0};
    int pid;

    fixture_open(&f);
    job_reserve(&f, &r, "j-abcdef", false);
    job_send_packages(&f, "j-abcdef", "unresponsive"); /* does not end by itself */
    job_until(&f, "j-abcdef", "ready");
    pid = task_find(&f.agent.jobs, "j-abcdef")->job.pid;
    fixture_crash(&f);
    fixture_reopen(&f);
    assert_string_equal(job_state_name(task_find(&f.agent.jobs, "j-abcdef")->job.state), "failed");
    assert_string_equal(task_find(&f.agent.jobs, "j-abcdef")->job.reason, "AgentRestarted");
    /* Our child, as the previous agent was this process: dead, and waiting to be reaped. */
    assert_int_equal(waitpid(pid, NULL, WNOHANG), pid);
    assert_int_equal(job_reserve(&f, &r, "j-after1", true), 201); /* the slot is free */
    fixture_close(&f);
}

TEST(the_slot_and_the_queue_survive_a_restart)
{
    struct fixture f = {0};

    fixture_open(&f);
    job_reserve(&f, &r, "j-holder", false);
    job_reserve(&f, &r, "j-first1", false);
    job_reserve(&f, &r, "j-second", false);
    for (int round = 0; round < 2; round++) {
        fixture_crash(&f);
        fixture_reopen(&f);
    }
    job_until(&f, "j-holder", "preparing");
    job_until(&f, "j-first1", "pending");
    assert_int_equal(ask(&f, &r, "GET", "/v1/jobs/j-holder", NULL), 200);
    job_send_packages(&f, "j-holder", "ok"); /* its new data port works */
    job_until(&f, "j-holder", "ready");
    ask(&f, &r, "POST", "/v1/jobs/j-holder/cancel", NULL);
    job_until(&f, "j-first1", "preparing");
    job_until(&f, "j-second", "pending");
    fixture_close(&f);
}

TEST(a_draining_agent_is_still_so_after_a_restart)
{
    struct fixture f = {0};

    fixture_open(&f);
    job_reserve(&f, &r, "j-holder", false);
    job_send_packages(&f, "j-holder", "unresponsive");
    job_until(&f, "j-holder", "ready");
    job_reserve(&f, &r, "j-first1", false);
    assert_int_equal(ask(&f, &r, "POST", "/v1/agent/drain", NULL), 200);
    fixture_crash(&f);
    fixture_reopen(&f);
    job_until(&f, "j-holder", "failed"); /* its slot is free, and stays so */
    ask(&f, &r, "GET", "/v1/jobs/j-first1", NULL);
    assert_true(reply_has(&r, "reason", "Draining"));
    assert_int_equal(job_reserve(&f, &r, "j-second", false), 503);
    assert_int_equal(ask(&f, &r, "POST", "/v1/agent/resume", NULL), 200);
    job_until(&f, "j-first1", "preparing");
    fixture_crash(&f);
    fixture_reopen(&f);
    assert_int_equal(job_reserve(&f, &r, "j-second", false), 201);
    fixture_close(&f);
}

TEST(a_queued_job_takes_the_slot_freed_during_the_restart)
{
    struct fixture f = {0};

    fixture_open(&f);
    job_reserve(&f, &r, "j-holder", false);
    job_send_packages(&f, "j-holder", "unresponsive");
    job_until(&f, "j-holder", "ready");
    job_reserve(&f, &r, "j-first1", false);
    fixture_crash(&f);
    fixture_reopen(&f);
    job_until(&f, "j-holder", "failed");
    job_until(&f, "j-first1", "preparing");
    fixture_close(&f);
}

TEST(a_reservation_whose_submitter_does_not_reconnect_ends)
{
    struct fixture f = {0};
    const struct task *t;
    double begun;

    fixture_open(&f);
    job_reserve(&f, &r, "j-holder", false);
    job_reserve(&f, &r, "j-first1", false);
    fixture_crash(&f);
    begun = clock_now();
    fixture_reopen(&f);
    for (t = f.agent.jobs.first; t; t = t->next)
        assert_true(t->lease_at > begun && t->lease_at < clock_now() + 60);
    task_find(&f.agent.jobs, "j-holder")->lease_at = clock_now() - 1;
    task_find(&f.agent.jobs, "j-first1")->lease_at = clock_now() - 1;
    job_until(&f, "j-holder", "cancelled");
    job_until(&f, "j-first1", "cancelled");
    assert_string_equal(task_find(&f.agent.jobs, "j-first1")->job.reason, "LeaseExpired");
    fixture_close(&f);
}

TEST(stopping_a_job_continues_after_a_restart)
{
    struct fixture f = {0};

    fixture_open(&f);
    job_run(&f, "j-abcdef", "unresponsive");
    wait_for_progress(&f, "j-abcdef", 1);
    ask(&f, &r, "POST", "/v1/jobs/j-abcdef/cancel", "{\"reason\":\"enough\",\"grace_s\":60}");
    job_until(&f, "j-abcdef", "stopping");
    fixture_crash(&f);
    fixture_reopen(&f);
    job_until(&f, "j-abcdef", "stopping");
    ask(&f, &r, "POST", "/v1/jobs/j-abcdef/cancel", "{\"grace_s\":0}");
    job_until(&f, "j-abcdef", "cancelled");
    assert_string_equal(task_find(&f.agent.jobs, "j-abcdef")->job.message, "enough");
    fixture_close(&f);
}

TEST(ended_jobs_are_unchanged_by_a_restart)
{
    struct fixture f = {0};
    json_t *before, *after;

    fixture_open(&f);
    job_run(&f, "j-abcdef", "ok");
    job_until(&f, "j-abcdef", "succeeded");
    before = job_json(&task_find(&f.agent.jobs, "j-abcdef")->job, 0);
    fixture_crash(&f);
    fixture_reopen(&f);
    after = job_json(&task_find(&f.agent.jobs, "j-abcdef")->job, 0);
    /* The journal has millisecond resolution. */
    json_object_del(before, "elapsed_s");
    json_object_del(after, "elapsed_s");
    assert_true(json_equal(before, after));
    json_decref(before);
    json_decref(after);
    assert_int_equal(ask(&f, &r, "GET", "/v1/jobs/j-abcdef/artifacts/final.safetensors", NULL), 200);
    fixture_close(&f);
}

TEST(an_incompletely_written_reservation_is_discarded)
{
    struct fixture f = {0};
    char path[256];
    struct err e;

    fixture_open(&f);
    job_reserve(&f, &r, "j-abcdef", false);
    fixture_crash(&f);
    snprintf(path, sizeof path, "%s/agent/jobs/j-abcdef/journal.jsonl", f.folder);
    assert_ok(file_write(path, "{\"note\":\"res", 12, 0600, &e));
    fixture_reopen(&f);
    assert_null(task_find(&f.agent.jobs, "j-abcdef"));
    assert_int_equal(job_reserve(&f, &r, "j-abcdef", true), 201);
    fixture_close(&f);
}

/* Overwrites the first byte of the line that contains `what`; "": of the first line. */
static void damage_line(const struct fixture *f, const char *what)
{
    char path[256], *text, *at;
    struct err e;
    size_t len;

    snprintf(path, sizeof path, "%s/agent/jobs/j-abcdef/journal.jsonl", f->folder);
    assert_ok(file_read(&text, &len, path, 1 << 20, &e));
    at = strstr(text, what);
    assert_non_null(at);
    while (at > text && at[-1] != '\n')
        at--;
    *at = '#';
    assert_ok(file_write(path, text, len, 0600, &e));
    free(text);
}

TEST(a_damaged_line_costs_that_line_and_not_the_job)
{
    static const char *const lines[] = {
        "",          "\"socket\"",         "\"package\"", "\"note\":\"runner\"",
        "\"ready\"", "\"note\":\"start\"", "\"running\"", "\"progress\""};

    for (size_t i = 0; i < N_OF(lines); i++) {
        struct fixture f = {0};
        char aside[256];

        fixture_open(&f);
        job_run(&f, "j-abcdef", "ok");
        job_until(&f, "j-abcdef", "succeeded");
        fixture_crash(&f);
        damage_line(&f, lines[i]);
        for (int round = 0; round < 2; round++) {
            fixture_reopen(&f);
            assert_int_equal(ask(&f, &r, "GET", "/v1/jobs/j-abcdef", NULL), 200);
            assert_true(reply_has(&r, "state", "succeeded"));
            assert_int_equal(ask(&f, &r, "GET", "/v1/jobs/j-abcdef/artifacts/final.safetensors", NULL), 200);
            assert_int_equal(ask(&f, &r, "GET", "/v1/jobs/j-abcdef/events", NULL), 200);
            assert_non_null(strstr(r.body, "\"event\":\"end\""));
            assert_null(strchr(r.body, '#'));
            fixture_crash(&f);
        }
        snprintf(aside, sizeof aside, "%s/agent/jobs/j-abcdef/journal.jsonl" JOURNAL_DAMAGED, f.folder);
        assert_int_equal(access(aside, F_OK), 0);
        fixture_reopen(&f);
        fixture_close(&f);
    }
}

TEST(a_running_job_goes_on_with_a_damaged_journal_or_ends_with_its_process)
{
    static const struct {
        const char *line;
        bool goes_on;
    } cases[] = {{"\"progress\"", true}, {"\"note\":\"start\"", true}, {"\"running\"", true}, {"", false}};

    for (size_t i = 0; i < N_OF(cases); i++) {
        struct fixture f = {0};
        int pid;

        fixture_open(&f);
        job_run(&f, "j-abcdef", "forever");
        wait_for_progress(&f, "j-abcdef", 4);
        pid = task_find(&f.agent.jobs, "j-abcdef")->runner.pid;
        fixture_crash(&f);
        damage_line(&f, cases[i].line);
        fixture_reopen(&f);
        job_until(&f, "j-abcdef", cases[i].goes_on ? "running" : "failed");
        if (cases[i].goes_on)
            wait_for_progress(&f, "j-abcdef", 12);
        else
            wait_for_end(pid);
        fixture_close(&f);
    }
}

TEST(the_folder_of_an_unrestored_job_is_not_reused)
{
    struct fixture f = {0};
    char path[256], away[256];

    fixture_open(&f);
    job_run(&f, "j-abcdef", "ok");
    job_until(&f, "j-abcdef", "succeeded");
    fixture_crash(&f);
    snprintf(path, sizeof path, "%s/agent/jobs/j-abcdef/journal.jsonl", f.folder);
    snprintf(away, sizeof away, "%s/journal.jsonl", f.folder);
    assert_int_equal(rename(path, away), 0);
    assert_int_equal(mkdir(path, 0700), 0); /* temporarily the file cannot be opened */
    fixture_reopen(&f);
    assert_null(task_find(&f.agent.jobs, "j-abcdef"));
    assert_int_equal(job_reserve(&f, &r, "j-abcdef", true), 409);
    assert_int_equal(rmdir(path), 0);
    assert_int_equal(rename(away, path), 0);
    assert_int_equal(job_reserve(&f, &r, "j-abcdef", true), 409);
    fixture_crash(&f);
    fixture_reopen(&f);
    job_until(&f, "j-abcdef", "succeeded");
    assert_int_equal(ask(&f, &r, "GET", "/v1/jobs/j-abcdef/artifacts/final.safetensors", NULL), 200);
    fixture_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_running_runner_is_adopted_without_lost_or_duplicate_events),
        cmocka_unit_test(runners_adopted_together_are_followed_by_one_inotify_instance),
        cmocka_unit_test(a_runner_that_finished_during_the_restart_keeps_its_outcome),
        cmocka_unit_test(a_runner_that_died_during_the_restart_is_reported),
        cmocka_unit_test(a_job_that_a_restart_of_the_machine_ended_was_interrupted),
        cmocka_unit_test(a_process_that_reuses_the_pid_is_not_adopted),
        cmocka_unit_test(a_runner_that_corrupted_its_event_file_is_stopped),
        cmocka_unit_test(a_ready_runner_ends_with_its_agent_and_fails_its_job),
        cmocka_unit_test(the_slot_and_the_queue_survive_a_restart),
        cmocka_unit_test(a_draining_agent_is_still_so_after_a_restart),
        cmocka_unit_test(a_queued_job_takes_the_slot_freed_during_the_restart),
        cmocka_unit_test(a_reservation_whose_submitter_does_not_reconnect_ends),
        cmocka_unit_test(stopping_a_job_continues_after_a_restart),
        cmocka_unit_test(ended_jobs_are_unchanged_by_a_restart),
        cmocka_unit_test(an_incompletely_written_reservation_is_discarded),
        cmocka_unit_test(a_damaged_line_costs_that_line_and_not_the_job),
        cmocka_unit_test(a_running_job_goes_on_with_a_damaged_journal_or_ends_with_its_process),
        cmocka_unit_test(the_folder_of_an_unrestored_job_is_not_reused),
    };

    return run_on_both_kernels(tests);
}
