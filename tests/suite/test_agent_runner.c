/* A runner and its agent: start, output and end, with a fake runner. */
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>

#include "agent/jobs/job_action.h"
#include "shared/base/clock.h"
#include "tests/lib/agent_fixture.h"
#include "tests/lib/both_kernels.h"
#include "tests/lib/emulated.h"
#include "tests/unit/unit.h"

static struct reply r;

TEST(the_runner_starts_as_the_protocol_specifies)
{
    struct fixture f = {0};
    static char text[4096];
    struct err e;
    char path[256], *p;
    size_t len;

    setenv("SECRET_OF_THE_AGENT", "x", 1);
    unsetenv("GLIBC_TUNABLES");
    fixture_open(&f);
    job_run(&f, "j-abcdef", "birth");
    job_until(&f, "j-abcdef", "succeeded");
    snprintf(path, sizeof path, "%s/agent/jobs/j-abcdef/run/birth.txt", f.folder);
    assert_ok(file_read(&p, &len, path, sizeof text, &e));
    snprintf(text, sizeof text, "%s", p);
    free(p);
    assert_non_null(strstr(text, "fds: 0 1 2 3 4 \n"));
    assert_non_null(strstr(text, "stdin: /dev/null\n"));
    assert_non_null(strstr(text, "files: 1024\n"));
    assert_non_null(strstr(text, "core: 0\n"));
    assert_non_null(strstr(text, "leader: yes\n"));
    assert_non_null(strstr(text, "NoNewPrivs:\t1\n"));
    assert_non_null(strstr(text, "OPENBLAS_NUM_THREADS=1\n"));
    assert_non_null(strstr(text, "GLIBC_TUNABLES=glibc.cpu.x86_rep_movsb_threshold=2147483647\n"));
    assert_null(strstr(text, "SECRET_OF_THE_AGENT"));
    fixture_close(&f);
}

static rlim_t limit_files(rlim_t n)
{
    struct rlimit limit;
    rlim_t old;

    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    old = limit.rlim_cur;
    limit.rlim_cur = n;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    return old;
}

TEST(a_data_socket_that_cannot_be_created_is_reported_with_its_cause)
{
    const struct job_spec spec = {
        .id = "j-abcdef", .attempt = 1, .role = "worker", .node_count = 1, .time_limit_s = 9};
    struct fixture f = {0};
    struct task *t;
    struct err e;
    rlim_t old;

    fixture_open(&f);
    assert_ok(task_add(&f.agent.jobs, &spec, "owner", "", &t, &e));
    old = limit_files(3);
    job_schedule(&f.agent.jobs);
    limit_files(old);
    assert_non_null(strstr(t->job.message, "data socket: Too many open files: this process may have 3 "));
    fixture_close(&f);
}

TEST(malformed_runner_lines_are_dropped)
{
    struct fixture f = {0};
    const struct task *t;

    fixture_open(&f);
    job_run(&f, "j-abcdef", "noise");
    job_until(&f, "j-abcdef", "succeeded");
    t = task_find(&f.agent.jobs, "j-abcdef");
    assert_int_equal(t->n_bad_lines, 4 + 2);
    assert_int_equal(t->n_models, 1); /* which the journal does not have */
    assert_int_equal(t->job.last_seq, 4 + 4 + 2 + 1);
    fixture_close(&f);
}

TEST(the_death_of_a_runner_is_an_event_with_its_last_output)
{
    static const struct {
        const char *behave, *reason, *message;
        bool starts;
    } cases[] = {
        {"crash", "RunnerDied", "job_runner was killed by signal 11 (Segmentation fault)", true},
        {"crash_early", "RunnerDied", "job_runner was killed by signal 11 (Segmentation fault)", false},
        {"exit_early", "RunnerDied", "job_runner exited with status 0", false},
        {"too_eager", "RunnerDied", "job_runner reported success before it was started", false},
        {"fail_load", "CodecLoadFailed", "no such symbol", false},
        {"recant", "RunnerDied",
         "job_runner reported that it was cancelled, and nobody has cancelled it here: did another program "
         "send "
         "it a signal?",
         false},
        {"alibi", "RunnerDied", "job_runner reported a reason that only its agent may give: AgentRestarted",
         false},
    };

    for (size_t i = 0; i < N_OF(cases); i++) {
        struct fixture f = {0};
        struct task *t;

        fixture_open(&f);
        job_reserve(&f, &r, "j-abcdef", false);
        job_send_packages(&f, "j-abcdef", cases[i].behave);
        t = task_find(&f.agent.jobs, "j-abcdef");
        if (cases[i].starts) {
            job_until(&f, "j-abcdef", "ready");
            job_send_start(&f, &r, "j-abcdef");
        }
        job_until(&f, "j-abcdef", "failed");
        assert_string_equal(t->job.reason, cases[i].reason);
        assert_string_equal(t->job.message, cases[i].message);
        if (cases[i].starts) {
            ask_bytes(&f, &r, "GET", "/v1/jobs/j-abcdef/events", "", NULL, 0);
            assert_int_equal(r.status, 401);
            ask(&f, &r, "GET", "/v1/jobs/j-abcdef/events", NULL);
            assert_non_null(strstr(r.body, is_emulated() ? "log line 11\"" : "log line 10\""));
            assert_non_null(strstr(r.body, "\"text\":\"log line 29\""));
            assert_null(strstr(r.body, "\"text\":\"log line 9\""));
        }
        fixture_close(&f);
    }
}

/* Appends so many lines to the runner's event file, its result, and the end. */
static void leave_lines(const struct fixture *f, const char *id, int n)
{
    char path[256];
    FILE *events;

    snprintf(path, sizeof path, "%s/agent/jobs/%s/run/events.jsonl", f->folder, id);
    events = fopen(path, "a");
    assert_non_null(events);
    for (int i = 0; i < n; i++)
        fprintf(events, "{\"event\":\"log\",\"level\":\"info\",\"text\":\"%0500d\"}\n", i);
    fprintf(events, "{\"event\":\"result\",\"params_sha256\":\"%064d\"}\n", 7);
    fprintf(events, "{\"event\":\"end\",\"state\":\"failed\",\"reason\":\"CodecFailed\"}\n");
    assert_int_equal(fclose(events), 0);
}

TEST(output_of_a_dead_runner_is_read_to_its_end_over_many_turns)
{
    enum { LINES = 4096 };
    struct fixture f = {0};
    struct pollfd gone = {.events = POLLIN};
    const struct task *t;
    uint64_t n_before, n_taken;
    double began;
    int n_turns = 0;

    fixture_open(&f);
    job_run(&f, "j-abcdef", "unresponsive");
    t = task_find(&f.agent.jobs, "j-abcdef");
    gone.fd = t->runner.pidfd;
    kill(-t->runner.pid, SIGKILL);
    assert_int_equal(poll(&gone, 1, 60000), 1);
    n_before = t->job.last_seq;
    leave_lines(&f, "j-abcdef", LINES);
    began = clock_now();
    for (; t->job.state == JOB_RUNNING; n_turns++)
        fixture_turn(&f);
    assert_true(n_turns > 2 && n_turns <= 512);
    assert_int_equal(t->job.state, JOB_FAILED);
    assert_string_equal(t->job.reason, "CodecFailed");
    assert_int_equal(strlen(t->job.params_sha256), 64);
    n_taken = t->job.last_seq - n_before;
    /* A sample, and besides: how many were left out, the end. */
    assert_true(n_taken > 2);
    assert_true((double)n_taken <= LINE_BURST + LINE_RATE * (clock_now() - began) + 10);
    assert_true(t->lines.n_seen >= LINES && t->lines.n_dropped > 0);
    fixture_close(&f);
}

TEST(a_runner_that_reported_its_end_and_hangs_is_killed_soon_whatever_its_grace_time)
{
    struct fixture f = {0};
    double until = clock_now() + UNIT_WAIT_S;
    struct task *t;

    fixture_open(&f);
    job_run(&f, "j-abcdef", "linger");
    job_until(&f, "j-abcdef", "running");
    t = task_find(&f.agent.jobs, "j-abcdef");
    while (t->job.step < 1 && clock_now() < until) /* its signal handler is set */
        fixture_turn(&f);
    assert_int_equal(ask(&f, &r, "POST", "/v1/jobs/j-abcdef/cancel", "{\"grace_s\":600}"), 202);
    while (!job_state_is_terminal(t->job.state) && clock_now() < until)
        fixture_turn(&f);
    assert_string_equal(job_state_name(t->job.state), "cancelled");
    fixture_close(&f);
}

TEST(a_runner_whose_files_occupy_too_much_of_the_disk_is_ended_and_only_its_artifacts_stay)
{
    struct err e;
    static const char *const kept[] = {"events.jsonl", "node.log", "train.csv"};
    static const char *const others[] = {"big", "start.json", "eval.csv", "comm.csv", "codec.c", "folder"};
    struct fixture f = {0};
    char path[256], *dir;
    FILE *file;

    fixture_open(&f);
    f.agent.jobs.job_disk = 1 << 20;
    job_run(&f, "j-abcdef", "unresponsive");
    snprintf(path, sizeof path, "%s/agent/jobs/j-abcdef/run/big", f.folder);
    file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(ftruncate(fileno(file), 1 << 30), 0); /* a hole occupies nothing */
    for (double until = clock_now() + 2.5; clock_now() < until;)
        fixture_turn(&f);
    assert_string_equal(job_state_name(task_find(&f.agent.jobs, "j-abcdef")->job.state), "running");
    for (int i = 0; i < 1 << 20; i++)
        putc(1, file);
    assert_int_equal(fclose(file), 0);
    dir = strrchr(path, '/') + 1;
    strcpy(dir, "eval.csv"); /* an artifact's name, and no file */
    assert_int_equal(mkdir(path, 0700), 0);
    strcpy(dir, "codec.c"); /* an artifact that is in another folder */
    assert_ok(file_write(path, "x", 1, 0600, &e));
    strcpy(dir, "comm.csv");
    assert_int_equal(symlink("../packages/settings.json", path), 0);
    strcpy(dir, "folder");
    assert_int_equal(mkdir(path, 0700), 0);
    strcat(path, "/more");
    assert_ok(file_write(path, "x", 1, 0600, &e));
    job_until(&f, "j-abcdef", "failed");
    assert_string_equal(task_find(&f.agent.jobs, "j-abcdef")->job.reason, "DiskFull");
    assert_non_null(strstr(task_find(&f.agent.jobs, "j-abcdef")->job.message, "(agent --job-disk)"));
    for (size_t i = 0; i < N_OF(kept) + N_OF(others); i++) {
        strcpy(dir, i < N_OF(kept) ? kept[i] : others[i - N_OF(kept)]);
        assert_int_equal(access(path, F_OK), i < N_OF(kept) ? 0 : -1);
    }
    strcpy(dir, "../packages/settings.json");
    assert_int_equal(access(path, F_OK), 0);
    fixture_close(&f);
}

TEST(no_process_of_a_runner_survives_its_end)
{
    struct fixture f = {0};
    double until = clock_now() + UNIT_WAIT_S;
    char path[256], *text;
    struct err e;
    size_t len;
    int child = 0;

    fixture_open(&f);
    job_run(&f, "j-abcdef", "family");
    snprintf(path, sizeof path, "%s/agent/jobs/j-abcdef/run/child.pid", f.folder);
    while (child == 0 && clock_now() < until) {
        fixture_turn(&f);
        if (file_read(&text, &len, path, 64, &e) < 0)
            continue;
        child = atoi(text); /* 0 while it is empty */
        free(text);
    }
    assert_true(child > 0 && process_is_running(child));
    ask(&f, &r, "POST", "/v1/jobs/j-abcdef/cancel", "{\"grace_s\":0.1}");
    job_until(&f, "j-abcdef", "cancelled");
    while (process_is_running(child) && clock_now() < until) /* killed, but not dead yet */
        fixture_turn(&f);
    assert_false(process_is_running(child));
    fixture_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_runner_starts_as_the_protocol_specifies),
        cmocka_unit_test(a_data_socket_that_cannot_be_created_is_reported_with_its_cause),
        cmocka_unit_test(malformed_runner_lines_are_dropped),
        cmocka_unit_test(the_death_of_a_runner_is_an_event_with_its_last_output),
        cmocka_unit_test(output_of_a_dead_runner_is_read_to_its_end_over_many_turns),
        cmocka_unit_test(a_runner_that_reported_its_end_and_hangs_is_killed_soon_whatever_its_grace_time),
        cmocka_unit_test(
            a_runner_whose_files_occupy_too_much_of_the_disk_is_ended_and_only_its_artifacts_stay),
        cmocka_unit_test(no_process_of_a_runner_survives_its_end),
    };

    return run_on_both_kernels(tests);
}
