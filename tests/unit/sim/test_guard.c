/* The guard of a simulation, in a process of its own, which it ends. */
#include "sim/guard.h"

#include <math.h>
#include <time.h>

#include <sys/wait.h>
#include <unistd.h>

#include "shared/base/helper.h"
#include "tests/unit/unit.h"

enum { NAP_S = 300, N_SHORT = 40 };

static const double LIMIT_S = 0.5;

static void nap(double seconds)
{
    nanosleep(&(struct timespec){.tv_sec = (time_t)seconds, .tv_nsec = (long)(fmod(seconds, 1) * 1e9)}, NULL);
}

static void hang_in(struct stopwatch *w, const char *call)
{
    phase_call(w, PHASE_APPLY, call);
    nap(NAP_S);
}

static void hang_when_loaded(struct stopwatch *w)
{
    hang_in(w, STOPWATCH_LOAD);
}

static void hang_when_unloaded(struct stopwatch *w)
{
    hang_in(w, STOPWATCH_UNLOAD);
}

/* A node of the process; each time it returns from a call, the time begins anew. In all, the short calls take
 * twice the limit. */
static void hang_after_short_calls(struct stopwatch *process)
{
    struct stopwatch own = {.process = process};
    enum phase last;

    for (int i = 0; i < N_SHORT; i++) {
        last = phase_call(&own, PHASE_DECODE, "on_message");
        nap(2 * LIMIT_S / N_SHORT);
        phase_enter(&own, last);
    }
    hang_in(&own, "merge");
}

static void compute(struct stopwatch *w)
{
    phase_call(w, PHASE_ENCODE, "encode");
    phase_enter(w, PHASE_COMPUTE);
    nap(2 * LIMIT_S);
}

/* Status of a process that does this under a guard of LIMIT_S, and its summary's failure. */
static int run(void (*act)(struct stopwatch *), struct err *failure)
{
    const char *folder = unit_folder();
    json_t *doc = NULL;
    int status;
    pid_t pid = fork();

    if (pid == 0) {
        struct stopwatch *w = guard_begin(folder, "spin", LIMIT_S, failure);

        if (!w)
            _exit(99);
        act(w);
        _exit(7);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    *failure = (struct err){0};
    helper_summary_read(&doc, folder, "simulator", failure);
    unit_remove(folder);
    return WEXITSTATUS(status);
}

TEST(a_codec_whose_constructor_or_destructor_does_not_return_ends_the_simulation)
{
    struct err e;

    assert_int_equal(run(hang_when_loaded, &e), 1);
    assert_int_equal(e.code, ERR_CODEC);
    assert_string_equal(e.text,
                        "codec spin has not returned from its constructors, which run when it is loaded, for "
                        "0.5 s: does it loop?");
    assert_int_equal(run(hang_when_unloaded, &e), 1);
    assert_string_equal(e.text,
                        "codec spin has not returned from its destructors, which run when its process ends, "
                        "for 0.5 s: does it loop?");
}

TEST(a_call_that_does_not_return_ends_the_simulation_and_many_short_ones_do_not)
{
    struct err e;

    assert_int_equal(run(hang_after_short_calls, &e), 1);
    assert_string_equal(e.text, "codec spin has not returned from merge() for 0.5 s: does it loop?");
}

TEST(a_simulation_may_compute_as_long_as_it_likes)
{
    struct err e;

    assert_int_equal(run(compute, &e), 7);
    assert_int_equal(e.code, ERR_NOT_FOUND);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_codec_whose_constructor_or_destructor_does_not_return_ends_the_simulation),
        cmocka_unit_test(a_call_that_does_not_return_ends_the_simulation_and_many_short_ones_do_not),
        cmocka_unit_test(a_simulation_may_compute_as_long_as_it_likes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
