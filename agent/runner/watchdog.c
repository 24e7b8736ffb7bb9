#include "agent/runner/watchdog.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "shared/clock.h"

/* All that the signal handler needs, made before: it may not allocate, nor print. */
static struct {
    const volatile struct stopwatch *watch;
    double limit_s;
    int events_fd;
    char end[512], log[256];
} dog;

static bool is_the_codecs(enum phase p)
{
    return p == PHASE_ENCODE || p == PHASE_DECODE || p == PHASE_APPLY;
}

static bool put(int fd, const char *text)
{
    return write(fd, text, strlen(text)) > 0;
}

/* The agent is told whatever becomes of the log, which a codec that prints in a loop has filled. */
static void tell_and_end(void)
{
    bool is_logged = put(STDERR_FILENO, dog.log), is_told = put(dog.events_fd, dog.end);

    _exit(is_logged && is_told ? 1 : 2);
}

static void look(int sig)
{
    int before = errno;

    (void)sig;
    if (is_the_codecs(dog.watch->phase) && clock_now() - dog.watch->since > dog.limit_s)
        tell_and_end();
    errno = before;
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
    dog.watch = watch;
    dog.limit_s = limit_s;
    dog.events_fd = r->fd;
    snprintf(text, sizeof text, "codec %s has not come back from a call for %.3g s: does it loop?", name,
             limit_s);
    snprintf(dog.log, sizeof dog.log, "CodecFailed: %s\n", text);
    /* A codec's name has nothing in it that JSON would have to escape. */
    snprintf(dog.end, sizeof dog.end,
             "{\"event\":\"end\",\"state\":\"failed\",\"reason\":\"CodecFailed\",\"message\":\"%s\"}\n",
             text);
    if (sigaction(SIGALRM, &act, NULL) < 0 || setitimer(ITIMER_REAL, &every, NULL) < 0)
        return err_errno(e, ERR_IO, "setitimer");
    return 0;
}

void watchdog_stop(void)
{
    const struct itimerval never = {0};

    setitimer(ITIMER_REAL, &never, NULL);
}
