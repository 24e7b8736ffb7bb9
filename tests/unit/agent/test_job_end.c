/* An agent whose journal of a job cannot be written, or that gets no memory. */
#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/jobs/job_action.h"
#include "shared/base/clock.h"
#include "tests/lib/agent_fixture.h"
#include "tests/unit/unit.h"

static struct reply r;
static bool is_disk_bad;

/* In place of the C library's. */
int fdatasync(int fd)
{
    errno = EIO;
    return is_disk_bad ? -1 : (int)syscall(SYS_fdatasync, fd);
}

int fsync(int fd)
{
    errno = EIO;
    return is_disk_bad ? -1 : (int)syscall(SYS_fsync, fd);
}

static void turn_until_unwritten(struct fixture *f)
{
    double until = clock_now() + UNIT_WAIT_S;

    while (task_count_unwritten(&f->agent.jobs) == 0 && clock_now() < until)
        fixture_turn(f);
    assert_int_equal(task_count_unwritten(&f->agent.jobs), 1);
}

TEST(an_end_that_cannot_be_written_has_not_happened_until_it_is)
{
    struct fixture f = {0};
    struct client c;

    fixture_open(&f);
    job_run(&f, "j-abcdef", "ok");
    client_open(&c, &f);
    client_get(&c, &f, "/v1/jobs/j-abcdef/events", "");
    client_expect(&c, &f, "\"running\"");
    is_disk_bad = true;
    turn_until_unwritten(&f);
    assert_int_equal(ask(&f, &r, "GET", "/v1/jobs/j-abcdef", NULL), 200);
    assert_true(reply_has(&r, "state", "running"));
    assert_true(reply_has(&r, "reason", "JournalFailed"));
    assert_true(reply_has(&r, "message",
                          "succeeded, which this agent cannot write yet: journal: Input/output error"));
    assert_int_equal(ask(&f, &r, "GET", "/readyz", NULL), 503);
    assert_non_null(strstr(r.body, "journal_failed"));
    assert_int_equal(ask(&f, &r, "GET", "/v1/status", NULL), 200);
    assert_non_null(strstr(r.body, "\"journal_failed\": true"));
    assert_null(strstr(c.text, "\"end\""));
    /* Its end stays the same whatever requests arrive meanwhile. */
    assert_int_equal(ask(&f, &r, "POST", "/v1/jobs/j-abcdef/cancel", NULL), 202);
    assert_int_equal(ask(&f, &r, "DELETE", "/v1/jobs/j-abcdef", NULL), 409);
    assert_int_not_equal(job_reserve(&f, &r, "j-second", false), 201);
    is_disk_bad = false;
    client_expect(&c, &f, "\"event\":\"end\",\"state\":\"succeeded\"");
    client_expect_close(&c, &f);
    client_close(&c);
    job_until(&f, "j-abcdef", "succeeded");
    assert_int_equal(ask(&f, &r, "GET", "/readyz", NULL), 200);
    assert_int_equal(job_reserve(&f, &r, "j-second", true), 201);
    fixture_close(&f);
}

TEST(an_agent_that_ends_before_the_end_is_written_finds_it_again)
{
    struct fixture f = {0};

    fixture_open(&f);
    job_run(&f, "j-abcdef", "ok");
    is_disk_bad = true;
    turn_until_unwritten(&f);
    fixture_crash(&f);
    is_disk_bad = false;
    fixture_reopen(&f);
    job_until(&f, "j-abcdef", "succeeded");
    fixture_close(&f);
}

TEST(a_stop_keeps_its_reason_if_the_state_stopping_cannot_be_written)
{
    struct fixture f = {0};

    fixture_open(&f);
    job_run(&f, "j-abcdef", "forever");
    is_disk_bad = true;
    assert_int_equal(
        ask(&f, &r, "POST", "/v1/jobs/j-abcdef/cancel", "{\"has_failed\":true,\"reason\":\"other\"}"), 202);
    assert_true(reply_has(&r, "state", "running"));
    turn_until_unwritten(&f);
    is_disk_bad = false;
    job_until(&f, "j-abcdef", "cancelled");
    assert_int_equal(ask(&f, &r, "GET", "/v1/jobs/j-abcdef", NULL), 200);
    assert_true(reply_has(&r, "reason", "JobFailed"));
    assert_true(reply_has(&r, "message", "other"));
    fixture_close(&f);
}

TEST(a_reservation_that_cannot_be_written_is_refused_and_leaves_nothing)
{
    struct fixture f = {0};

    fixture_open(&f);
    is_disk_bad = true;
    assert_int_equal(job_reserve(&f, &r, "j-abcdef", true), 500);
    is_disk_bad = false;
    assert_int_equal(ask(&f, &r, "GET", "/v1/jobs/j-abcdef", NULL), 404);
    fixture_crash(&f);
    fixture_reopen(&f);
    assert_null(task_find(&f.agent.jobs, "j-abcdef"));
    assert_int_equal(job_reserve(&f, &r, "j-abcdef", true), 201);
    fixture_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_end_that_cannot_be_written_has_not_happened_until_it_is),
        cmocka_unit_test(an_agent_that_ends_before_the_end_is_written_finds_it_again),
        cmocka_unit_test(a_stop_keeps_its_reason_if_the_state_stopping_cannot_be_written),
        cmocka_unit_test(a_reservation_that_cannot_be_written_is_refused_and_leaves_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
