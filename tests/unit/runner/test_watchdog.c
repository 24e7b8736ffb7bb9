#include "agent/runner/watchdog.h"

#include <math.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/unit.h"

/* What a node wrote in its folder until it ended, after `seconds` in this phase. */
struct trial {
    int status;
    char *events, *log;
};

static void loop_for(double seconds)
{
    double until = clock_now() + seconds;
    volatile int busy = 1;

    while (clock_now() < until)
        (void)busy;
}

/* Runs in its own process: a node that enters the phase and stays there, or calls exit at once if `seconds`
 * is negative. Ends with 7 if it is not stopped, after a slow call once the watchdog has been stopped. */
static void run_node(const char *folder, const char *log, enum phase phase, double limit_s, double seconds)
{
    static struct stopwatch watch;
    struct report r;
    struct err e;

    if (chdir(folder) < 0 || report_open(&r, &e) < 0 || !freopen(log, "w", stderr))
        _exit(98);
    atomic_init(&watch.since, clock_now());
    if (watchdog_start(&watch, limit_s, "spin", &r, &e) < 0)
        _exit(99);
    phase_enter(&watch, phase);
    if (seconds < 0)
        exit(0);
    loop_for(seconds);
    watchdog_stop();
    phase_enter(&watch, PHASE_ENCODE);
    loop_for(fmin(2 * limit_s, 1));
    exit(7);
}

static void read_text(char **out, const char *folder, const char *name)
{
    char path[128];
    struct err e;
    size_t len;

    snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_ok(file_read(out, &len, path, 4096, &e));
}

static void try_phase(struct trial *t, const char *log, enum phase phase, double limit_s, double seconds)
{
    const char *folder = unit_folder();
    pid_t pid = fork();

    if (pid == 0)
        run_node(folder, log, phase, limit_s, seconds);
    assert_true(pid > 0);
    assert_int_equal(waitpid(pid, &t->status, 0), pid);
    read_text(&t->events, folder, "events.jsonl");
    t->log = NULL;
    if (log[0] != '/')
        read_text(&t->log, folder, log);
    unit_remove(folder);
}

static void trial_clear(struct trial *t)
{
    free(t->events);
    free(t->log);
}

TEST(a_codec_that_hangs_ends_its_node_with_a_report)
{
    static const enum phase of_codec[] = {PHASE_ENCODE, PHASE_DECODE, PHASE_APPLY};

    if (IS_THREAD_SANITIZED) /* it delays a signal until the next system call, which a loop never makes */
        skip();
    for (size_t i = 0; i < N_OF(of_codec); i++) {
        struct trial t;

        try_phase(&t, "node.log", of_codec[i], 0.2, 60);
        assert_true(WIFEXITED(t.status));
        assert_int_equal(WEXITSTATUS(t.status), 1);
        assert_string_equal(
            t.log, "CodecFailed: codec spin has not returned from a call for 0.2 s: does it loop?\n");
        assert_string_equal(t.events,
                            "{\"event\":\"end\",\"state\":\"failed\",\"reason\":\"CodecFailed\",\"message\":"
                            "\"codec spin has not returned from a call for 0.2 s: does it loop?\"}\n");
        trial_clear(&t);
    }
}

TEST(a_codec_that_calls_exit_has_failed)
{
    struct trial t;

    try_phase(&t, "node.log", PHASE_DECODE, 60, -1);
    assert_true(WIFEXITED(t.status));
    assert_int_equal(WEXITSTATUS(t.status), 1);
    assert_string_equal(t.log, "CodecFailed: codec spin has called exit: a node ends when its job does\n");
    assert_non_null(strstr(t.events, "\"state\":\"failed\",\"reason\":\"CodecFailed\""));
    trial_clear(&t);
    try_phase(&t, "node.log", PHASE_COMPUTE, 60, -1); /* not the codec's fault */
    assert_int_equal(WEXITSTATUS(t.status), 0);
    assert_string_equal(t.events, "");
    trial_clear(&t);
}

TEST(the_agent_is_notified_even_if_the_log_cannot_be_written)
{
    struct trial t;

    if (IS_THREAD_SANITIZED)
        skip();
    try_phase(&t, "/dev/full", PHASE_DECODE, 0.2, 60);
    assert_int_equal(WEXITSTATUS(t.status), 2);
    assert_non_null(strstr(t.events, "\"reason\":\"CodecFailed\""));
    trial_clear(&t);
}

TEST(computing_waiting_and_slow_calls_that_return_are_not_interrupted)
{
    static const struct {
        enum phase phase;
        double limit_s, seconds;
    } cases[] = {{PHASE_COMPUTE, 0.1, 0.5},
                 {PHASE_WAIT, 0.1, 0.5},
                 {PHASE_EVALUATE, 0.1, 0.5},
                 {PHASE_ENCODE, 60, 0.1}};

    for (size_t i = 0; i < N_OF(cases); i++) {
        struct trial t;

        try_phase(&t, "node.log", cases[i].phase, cases[i].limit_s, cases[i].seconds);
        assert_true(WIFEXITED(t.status));
        assert_int_equal(WEXITSTATUS(t.status), 7);
        assert_string_equal(t.events, "");
        trial_clear(&t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_codec_that_hangs_ends_its_node_with_a_report),
        cmocka_unit_test(a_codec_that_calls_exit_has_failed),
        cmocka_unit_test(the_agent_is_notified_even_if_the_log_cannot_be_written),
        cmocka_unit_test(computing_waiting_and_slow_calls_that_return_are_not_interrupted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
