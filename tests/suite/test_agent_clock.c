/* Setting the wall clock two hours forward or back, in each state of a job: nothing ends, starts or expires
 * by it. */
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "agent/jobs/job_action.h"
#include "shared/base/clock.h"
#include "tests/lib/agent_fixture.h"
#include "tests/unit/unit.h"

static struct reply r;
static time_t offset_s; /* of the wall clock */

/* In place of the C library's. */
int clock_gettime(clockid_t id, struct timespec *t)
{
    int rc = (int)syscall(SYS_clock_gettime, id, t);

    if (id == CLOCK_REALTIME)
        t->tv_sec += offset_s;
    return rc;
}

static const time_t steps[] = {7200, -7200};

static void turn_for_ticks(struct fixture *f)
{
    double until = clock_now() + 1.2; /* the tick of a job, which checks its limits, comes every second */

    while (clock_now() < until)
        fixture_turn(f);
}

static const char *state_of(struct fixture *f, const char *id)
{
    const struct task *t = task_find(&f->agent.jobs, id);

    return t ? job_state_name(t->job.state) : "unknown";
}

static void step_clock(struct fixture *f, time_t by, bool with_restart, const char *id, const char *state)
{
    offset_s += by;
    if (with_restart) {
        fixture_crash(f);
        fixture_reopen(f);
    }
    turn_for_ticks(f);
    assert_string_equal(state_of(f, id), state);
    offset_s -= by;
    turn_for_ticks(f);
    assert_string_equal(state_of(f, id), state);
}

TEST(a_step_of_the_clock_ends_no_job_in_any_state)
{
    for (size_t i = 0; i < N_OF(steps); i++) {
        struct fixture f = {0};

        fixture_open(&f);
        assert_int_equal(job_reserve(&f, &r, "j-abcdef", false), 201);
        assert_int_equal(job_reserve(&f, &r, "j-second", false), 201);
        step_clock(&f, steps[i], false, "j-abcdef", "preparing");
        step_clock(&f, steps[i], true, "j-second", "pending");
        job_send_packages(&f, "j-abcdef", "forever");
        job_until(&f, "j-abcdef", "ready");
        step_clock(&f, steps[i], false, "j-abcdef", "ready");
        assert_int_equal(job_send_start(&f, &r, "j-abcdef"), 202);
        job_until(&f, "j-abcdef", "running");
        /* Its time limit is an hour. */
        step_clock(&f, steps[i], false, "j-abcdef", "running");
        step_clock(&f, steps[i], true, "j-abcdef", "running");
        assert_string_equal(state_of(&f, "j-second"), "pending");
        ask(&f, &r, "POST", "/v1/jobs/j-abcdef/cancel", NULL);
        job_until(&f, "j-abcdef", "cancelled");
        step_clock(&f, steps[i], true, "j-abcdef", "cancelled");
        fixture_close(&f);
    }
}

TEST(the_time_limit_counts_across_a_restart_whatever_the_clock_says)
{
    struct fixture f = {0};
    double began;

    fixture_open(&f);
    assert_int_equal(ask(&f, &r, "POST", "/v1/jobs",
                         "{\"id\":\"j-abcdef\",\"attempt\":1,\"node\":0,\"role\":\"worker\",\"node_count\":1,"
                         "\"time_limit_s\":3}"),
                     201);
    job_send_packages(&f, "j-abcdef", "forever");
    job_until(&f, "j-abcdef", "ready");
    assert_int_equal(job_send_start(&f, &r, "j-abcdef"), 202);
    began = clock_now();
    offset_s = -7200;
    turn_for_ticks(&f);
    fixture_crash(&f);
    fixture_reopen(&f);
    job_until(&f, "j-abcdef", "failed");
    assert_true(clock_now() - began >= 3);
    assert_string_equal(task_find(&f.agent.jobs, "j-abcdef")->job.reason, "TimeLimit");
    offset_s = 0;
    fixture_close(&f);
}

TEST(the_queue_keeps_its_order_when_the_clock_is_set_back)
{
    struct fixture f = {0};

    fixture_open(&f);
    job_run(&f, "j-abcdef", "forever");
    assert_int_equal(job_reserve(&f, &r, "j-second", false), 201);
    offset_s = -7200;
    assert_int_equal(job_reserve(&f, &r, "j-third0", false), 201);
    fixture_crash(&f);
    fixture_reopen(&f);
    ask(&f, &r, "POST", "/v1/jobs/j-abcdef/cancel", NULL);
    job_until(&f, "j-second", "preparing");
    assert_string_equal(state_of(&f, "j-third0"), "pending");
    offset_s = 0;
    fixture_close(&f);
}

TEST(the_job_that_ended_first_is_forgotten_first_when_the_clock_is_set_back)
{
    struct fixture f = {.opt.keep = 1};

    fixture_open(&f);
    job_run(&f, "j-abcdef", "ok");
    job_until(&f, "j-abcdef", "succeeded");
    offset_s = -7200;
    job_run(&f, "j-second", "ok");
    job_until(&f, "j-second", "succeeded");
    assert_string_equal(state_of(&f, "j-abcdef"), "unknown");
    offset_s = 0;
    fixture_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_step_of_the_clock_ends_no_job_in_any_state),
        cmocka_unit_test(the_time_limit_counts_across_a_restart_whatever_the_clock_says),
        cmocka_unit_test(the_queue_keeps_its_order_when_the_clock_is_set_back),
        cmocka_unit_test(the_job_that_ended_first_is_forgotten_first_when_the_clock_is_set_back),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
