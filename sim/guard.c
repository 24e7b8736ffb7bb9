#include "sim/guard.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "shared/base/helper.h"

static struct {
    struct stopwatch watch;
    const char *folder, *name;
    double limit_s;
} guard;

static _Noreturn void end_process(void)
{
    struct err e;
    char what[96];

    stopwatch_name_call(what, sizeof what, &guard.watch, false);
    err_set(&e, ERR_CODEC, "codec %s has not %s for %.3g s: does it loop?", guard.name, what, guard.limit_s);
    if (helper_summary_write(helper_summary_failure(&e), guard.folder, &e) < 0)
        fprintf(stderr, "%s\n", e.text);
    _exit(1);
}

/* Time in which this process was stopped does not count: after a longer break only one period is added. */
static void *watch_calls(void *arg)
{
    const double period_s = fmin(1, guard.limit_s / 4);
    const struct timespec pause = {.tv_sec = (time_t)period_s,
                                   .tv_nsec = (long)((period_s - floor(period_s)) * 1e9)};
    uint64_t n_calls = 0;
    double took_s = 0;

    (void)arg;
    for (;;) {
        uint64_t n = atomic_load_explicit(&guard.watch.n_calls, memory_order_relaxed);

        took_s = stopwatch_in_codec(&guard.watch) && n == n_calls ? took_s + period_s : 0;
        if (took_s > guard.limit_s)
            end_process();
        n_calls = n;
        nanosleep(&pause, NULL);
    }
    return NULL;
}

struct stopwatch *guard_begin(const char *folder, const char *name, double limit_s, struct err *e)
{
    pthread_t thread;

    guard.folder = folder;
    guard.name = name;
    guard.limit_s = limit_s;
    if (pthread_create(&thread, NULL, watch_calls, NULL) != 0) {
        err_call(e, ERR_NOMEM, CALL_THREAD, "a thread");
        return NULL;
    }
    pthread_detach(thread);
    return &guard.watch;
}
