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

struct verdict {
    char end[512], log[256];
};

/* All that the signal handler needs, made before: it may not allocate, nor print. */
static struct {
    _Atomic(const struct stopwatch *) watch; /* NULL: nobody is watched */
    double limit_s;
    int events_fd;
    struct verdict loops, exits;
} dog;

/* Is the codec at work? Acquired: `since` is read next, and must be that phase's or a later one's. */
static bool is_the_codecs(const struct stopwatch *w)
{
    enum phase p = atomic_load_explicit(&w->phase, memory_order_acquire);

    return p == PHASE_ENCODE || p == PHASE_DECODE || p == PHASE_APPLY;
}

/* Acquired: what was composed before it was set. */
static const struct stopwatch *watched(void)
{
    return atomic_load_explicit(&dog.watch, memory_order_acquire);
}

static bool put(int fd, const char *text)
{
    return write(fd, text, strlen(text)) > 0;
}

/* The agent is told whatever becomes of the log, which a codec that prints in a loop has filled. */
static void tell_and_end(const struct verdict *v)
{
    bool is_logged = put(STDERR_FILENO, v->log), is_told = put(dog.events_fd, v->end);

    _exit(is_logged && is_told ? 1 : 2);
}

static void look(int sig)
{
    const struct stopwatch *w = watched();
    int before = errno;

    (void)sig;
    if (w && is_the_codecs(w) && clock_now() - stopwatch_since(w) > dog.limit_s)
        tell_and_end(&dog.loops);
    errno = before;
}

static void look_who_exits(void)
{
    const struct stopwatch *w = watched();

    if (w && is_the_codecs(w))
        tell_and_end(&dog.exits);
}

/* A codec's name has nothing in it that JSON would have to escape. */
static void compose(struct verdict *v, const char *text)
{
    snprintf(v->log, sizeof v->log, "CodecFailed: %s\n", text);
    snprintf(v->end, sizeof v->end,
             "{\"event\":\"end\",\"state\":\"failed\",\"reason\":\"CodecFailed\",\"message\":\"%s\"}\n",
             text);
}

int watchdog_start(const struct stopwatch *watch, double limit_s, const char *name, const struct report *r,
                   struct err *e)
{
    /* Reads and writes go on by themselves; who waits for a peer looks at the clock and waits on. */
    const struct sigaction act = {.sa_handler = look, .sa_flags = SA_RESTART};
    double period = fmin(limit_s / 4, 1);
    struct itimerval every = {.it_interval = {.tv_sec = (time_t)period}};
    char text[192];

    every.it_interval.tv_usec = (suseconds_t)((period - floor(period)) * 1e6);
    every.it_value = every.it_interval;
    dog.limit_s = limit_s;
    dog.events_fd = r->fd;
    snprintf(text, sizeof text, "codec %s has not come back from a call for %.3g s: does it loop?", name,
             limit_s);
    compose(&dog.loops, text);
    snprintf(text, sizeof text, "codec %s has called exit: a node ends when its job does", name);
    compose(&dog.exits, text);
    atomic_store_explicit(&dog.watch, watch, memory_order_release);
    if (atexit(look_who_exits) != 0)
        return err_set(e, ERR_NOMEM, "no memory to be told of a codec that exits");
    if (sigaction(SIGALRM, &act, NULL) < 0 || setitimer(ITIMER_REAL, &every, NULL) < 0)
        return err_errno(e, ERR_IO, "setitimer");
    return 0;
}

void watchdog_stop(void)
{
    const struct itimerval never = {0};

    setitimer(ITIMER_REAL, &never, NULL);
    atomic_store_explicit(&dog.watch, NULL, memory_order_relaxed);
}
