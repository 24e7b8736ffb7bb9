#include "agent/runner/watchdog.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "shared/clock.h"
#include "shared/reason.h"

struct verdict {
    char end[512], log[256];
};

/* The state of the signal handler, prepared in advance: the handler may neither allocate nor print. */
static struct {
    _Atomic(const struct stopwatch *) watch; /* NULL: nothing is watched */
    double limit_s;
    int events_fd;
    struct verdict loops, exits;
} state;

/* Returns whether the codec runs. Acquire: `since` is read next, and must be that phase's or a later
 * one's. */
static bool is_in_codec(const struct stopwatch *w)
{
    enum phase p = atomic_load_explicit(&w->phase, memory_order_acquire);

    return p == PHASE_ENCODE || p == PHASE_DECODE || p == PHASE_APPLY;
}

/* Acquire: sees the messages that were composed before the pointer was set. */
static const struct stopwatch *watched(void)
{
    return atomic_load_explicit(&state.watch, memory_order_acquire);
}

static bool put(int fd, const char *text)
{
    return write(fd, text, strlen(text)) > 0;
}

/* Reports to the agent even if writing to the log fails, which a codec that prints in a loop has filled. */
static void report_and_exit(const struct verdict *v)
{
    bool is_logged = put(STDERR_FILENO, v->log), is_reported = put(state.events_fd, v->end);

    _exit(is_logged && is_reported ? 1 : 2);
}

static void check_time(int sig)
{
    const struct stopwatch *w = watched();
    int before = errno;

    (void)sig;
    if (w && is_in_codec(w) && clock_now() - stopwatch_since(w) > state.limit_s)
        report_and_exit(&state.loops);
    errno = before;
}

static void check_exit(void)
{
    const struct stopwatch *w = watched();

    if (w && is_in_codec(w))
        report_and_exit(&state.exits);
}

/* A codec's name has no characters that JSON must escape. */
static void compose(struct verdict *v, const char *text)
{
    snprintf(v->log, sizeof v->log, REASON_CODEC_FAILED ": %s\n", text);
    snprintf(v->end, sizeof v->end,
             "{\"event\":\"end\",\"state\":\"failed\",\"reason\":\"" REASON_CODEC_FAILED
             "\",\"message\":\"%s\"}\n",
             text);
}

int watchdog_start(const struct stopwatch *watch, double limit_s, const char *name, const struct report *r,
                   struct err *e)
{
    /* Reads and writes are restarted; a wait for a peer checks the clock and continues. */
    const struct sigaction act = {.sa_handler = check_time, .sa_flags = SA_RESTART};
    double period = fmin(limit_s / 4, 1);
    struct itimerval every = {.it_interval = {.tv_sec = (time_t)period}};
    char text[192];

    every.it_interval.tv_usec = (suseconds_t)((period - floor(period)) * 1e6);
    every.it_value = every.it_interval;
    state.limit_s = limit_s;
    state.events_fd = r->fd;
    snprintf(text, sizeof text, "codec %s has not returned from a call for %.3g s: does it loop?", name,
             limit_s);
    compose(&state.loops, text);
    snprintf(text, sizeof text, "codec %s has called exit: a node ends when its job does", name);
    compose(&state.exits, text);
    atomic_store_explicit(&state.watch, watch, memory_order_release);
    if (atexit(check_exit) != 0)
        return err_set(e, ERR_NOMEM, "no memory for an exit handler");
    if (sigaction(SIGALRM, &act, NULL) < 0 || setitimer(ITIMER_REAL, &every, NULL) < 0)
        return err_errno(e, ERR_IO, "setitimer");
    return 0;
}

void watchdog_stop(void)
{
    const struct itimerval never = {0};

    setitimer(ITIMER_REAL, &never, NULL);
    atomic_store_explicit(&state.watch, NULL, memory_order_relaxed);
}
