/* Attempts of a job on one agent: a later attempt excludes all messages of earlier ones. */
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shared/base/clock.h"
#include "tests/lib/agent_fixture.h"
#include "tests/unit/unit.h"

static struct reply r;
static const char id[] = "j-abcdef";

static int reserve(struct fixture *f, int attempt)
{
    char body[512];

    snprintf(
        body, sizeof body,
        "{\"id\":\"%s\",\"attempt\":%d,\"node\":0,\"role\":\"worker\",\"name\":\"n\",\"codec\":\"fedavg\","
        "\"node_count\":1,\"server_count\":0,\"submitter\":\"me\",\"no_queue\":true,\"time_limit_s\":3600}",
        id, attempt);
    return ask(f, &r, "POST", "/v1/jobs", body);
}

/* A request about one attempt. */
static int ask_about(struct fixture *f, const char *attempt, const char *method, const char *path)
{
    char headers[256];

    snprintf(headers, sizeof headers, "Authorization: Bearer %s\r\nX-Job-Attempt: %s\r\n", f->token, attempt);
    return ask_bytes(f, &r, method, path, headers, NULL, 0);
}

static void attempt_until(struct fixture *f, int attempt, const char *state)
{
    const struct task *t = task_attempt(&f->agent.jobs, id, attempt);
    double until = clock_now() + UNIT_WAIT_S;

    assert_non_null(t);
    while (strcmp(job_state_name(t->job.state), state) != 0 && clock_now() < until)
        fixture_turn(f);
    assert_string_equal(job_state_name(t->job.state), state);
}

TEST(a_later_attempt_ends_a_stopped_runner_of_an_earlier_one_and_gets_its_slot)
{
    struct fixture f = {0};
    int pid;

    fixture_open(&f);
    job_run(&f, id, "forever");
    pid = task_find(&f.agent.jobs, id)->runner.pid;
    kill(-pid, SIGSTOP);
    assert_int_equal(reserve(&f, 2), 201);
    assert_true(reply_has(&r, "attempt", "2"));
    attempt_until(&f, 1, "cancelled");
    assert_string_equal(task_attempt(&f.agent.jobs, id, 1)->job.reason, "Superseded");
    assert_false(process_is_running(pid));
    attempt_until(&f, 2, "preparing");
    fixture_close(&f);
}

TEST(a_free_slot_is_not_given_to_an_attempt_while_an_earlier_one_ends)
{
    struct fixture f = {.opt = {.slots = 2}};
    int pid;

    fixture_open(&f);
    job_run(&f, id, "forever");
    pid = task_find(&f.agent.jobs, id)->runner.pid;
    assert_int_equal(reserve(&f, 2), 201);
    assert_true(reply_has(&r, "state", "pending"));
    assert_non_null(strstr(r.body, "position 1 of 1, behind its earlier attempt"));
    while (strcmp(job_state_name(task_attempt(&f.agent.jobs, id, 2)->job.state), "pending") == 0)
        fixture_turn(&f);
    assert_false(process_is_running(pid));
    assert_string_equal(job_state_name(task_attempt(&f.agent.jobs, id, 1)->job.state), "cancelled");
    fixture_close(&f);
}

TEST(an_attempt_runs_on_if_a_later_one_cannot_be_reserved)
{
    struct fixture f = {.opt = {.slots = 2}};
    char path[DIR_MAX + 64];

    fixture_open(&f);
    job_run(&f, id, "forever");
    snprintf(path, sizeof path, "%s/jobs/j-abcdef.2", f.agent.opt.dir);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(reserve(&f, 2), 409);
    for (int i = 0; i < 20; i++)
        fixture_turn(&f);
    assert_string_equal(job_state_name(task_find(&f.agent.jobs, id)->job.state), "running");
    assert_true(process_is_running(task_find(&f.agent.jobs, id)->runner.pid));
    fixture_close(&f);
}

/* The agent was killed between the reservation and the end of the earlier attempt. */
TEST(an_earlier_attempt_is_ended_after_a_restart)
{
    struct fixture f = {.opt = {.slots = 2}};

    fixture_open(&f);
    job_run(&f, id, "forever");
    assert_int_equal(reserve(&f, 2), 201);
    fixture_crash(&f);
    fixture_reopen(&f);
    attempt_until(&f, 1, "cancelled");
    assert_string_equal(task_attempt(&f.agent.jobs, id, 1)->job.reason, "Superseded");
    attempt_until(&f, 2, "preparing");
    fixture_close(&f);
}

TEST(an_earlier_attempt_is_refused_once_a_later_one_is_known)
{
    struct fixture f = {0};

    fixture_open(&f);
    assert_int_equal(reserve(&f, 2), 201);
    assert_int_equal(reserve(&f, 1), 409);
    assert_non_null(strstr(r.body, "JOB_EXISTS"));
    assert_int_equal(reserve(&f, 2), 200);
    job_send_packages(&f, id, "ok");
    job_until(&f, id, "ready");
    assert_int_equal(job_send_start(&f, &r, id), 409); /* an order of attempt 1 */
    fixture_close(&f);
}

TEST(a_request_that_names_an_attempt_reaches_only_that_one)
{
    struct fixture f = {0};

    fixture_open(&f);
    job_run(&f, id, "ok");
    job_until(&f, id, "succeeded");
    assert_int_equal(reserve(&f, 2), 201);
    assert_int_equal(ask_about(&f, "1", "GET", "/v1/jobs/j-abcdef"), 200);
    assert_true(reply_has(&r, "state", "succeeded"));
    assert_int_equal(ask_about(&f, "1", "POST", "/v1/jobs/j-abcdef/cancel"), 200); /* it has ended */
    assert_int_equal(ask_about(&f, "1", "GET", "/v1/jobs/j-abcdef/records.csv?kind=train"), 200);
    assert_non_null(strstr(r.body, "0.1,0,worker,2,2,2,4\n"));
    assert_int_equal(ask_about(&f, "1", "GET", "/v1/jobs/j-abcdef/events?after=0"), 200);
    assert_non_null(strstr(r.body, "\"succeeded\""));
    assert_int_equal(ask_about(&f, "2", "GET", "/v1/jobs/j-abcdef/records.csv?kind=train"), 200);
    assert_string_equal(r.body, "");
    assert_int_equal(ask_about(&f, "3", "GET", "/v1/jobs/j-abcdef"), 404);
    assert_int_equal(ask_about(&f, "0", "GET", "/v1/jobs/j-abcdef"), 400);
    assert_int_equal(ask_about(&f, "1x", "GET", "/v1/jobs/j-abcdef"), 400);
    assert_int_equal(ask(&f, &r, "GET", "/v1/jobs/j-abcdef", NULL), 200);
    assert_true(reply_has(&r, "attempt", "2"));
    assert_string_equal(job_state_name(task_find(&f.agent.jobs, id)->job.state), "preparing");
    assert_int_equal(ask(&f, &r, "DELETE", "/v1/jobs/j-abcdef", NULL), 409);
    assert_int_equal(ask_about(&f, "1", "DELETE", "/v1/jobs/j-abcdef"), 204);
    assert_null(task_attempt(&f.agent.jobs, id, 1));
    assert_non_null(task_find(&f.agent.jobs, id));
    fixture_close(&f);
}

TEST(a_job_is_forgotten_with_all_its_attempts)
{
    struct fixture f = {0};

    fixture_open(&f);
    job_run(&f, id, "ok");
    job_until(&f, id, "succeeded");
    assert_int_equal(reserve(&f, 2), 201);
    assert_int_equal(ask(&f, &r, "POST", "/v1/jobs/j-abcdef/cancel", "{}"), 202);
    attempt_until(&f, 2, "cancelled");
    assert_int_equal(ask(&f, &r, "DELETE", "/v1/jobs/j-abcdef", NULL), 204);
    assert_null(task_find(&f.agent.jobs, id));
    fixture_crash(&f);
    fixture_reopen(&f);
    assert_null(task_find(&f.agent.jobs, id));
    fixture_close(&f);
}

TEST(attempts_are_known_after_a_restart_each_with_its_folder)
{
    struct fixture f = {0};
    char path[DIR_MAX + 64];

    fixture_open(&f);
    job_run(&f, id, "ok");
    job_until(&f, id, "succeeded");
    assert_int_equal(reserve(&f, 12), 201);
    snprintf(path, sizeof path, "%s/jobs/j-abcdef.12/journal.jsonl", f.agent.opt.dir);
    assert_int_equal(access(path, F_OK), 0);
    snprintf(path, sizeof path, "%s/jobs/j-abcdef.01", f.agent.opt.dir); /* no attempt has this name */
    assert_int_equal(mkdir(path, 0700), 0);
    fixture_crash(&f);
    fixture_reopen(&f);
    assert_string_equal(job_state_name(task_attempt(&f.agent.jobs, id, 1)->job.state), "succeeded");
    assert_int_equal(task_find(&f.agent.jobs, id)->job.spec.attempt, 12);
    assert_int_equal(reserve(&f, 11), 409);
    fixture_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_later_attempt_ends_a_stopped_runner_of_an_earlier_one_and_gets_its_slot),
        cmocka_unit_test(a_free_slot_is_not_given_to_an_attempt_while_an_earlier_one_ends),
        cmocka_unit_test(an_attempt_runs_on_if_a_later_one_cannot_be_reserved),
        cmocka_unit_test(an_earlier_attempt_is_ended_after_a_restart),
        cmocka_unit_test(an_earlier_attempt_is_refused_once_a_later_one_is_known),
        cmocka_unit_test(a_request_that_names_an_attempt_reaches_only_that_one),
        cmocka_unit_test(a_job_is_forgotten_with_all_its_attempts),
        cmocka_unit_test(attempts_are_known_after_a_restart_each_with_its_folder),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
