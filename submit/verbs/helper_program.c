#include "submit/verbs/helper_program.h"

#include <limits.h>
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shared/base/child.h"
#include "shared/base/clock.h"
#include "shared/base/file.h"
#include "shared/base/helper.h"
#include "submit/terminal/interrupt.h"

static const double GRACE_S = 2;

static int check_time(const struct helper *h, struct err *e)
{
    if (interrupt_check(e) < 0)
        return e->code;
    if (h->deadline > 0 && clock_now() > h->deadline)
        return err_set(e, ERR_TIMEOUT, "the %g s of --timeout are over", h->timeout_s);
    return 0;
}

/* Waits for the program's end, and ends it on a signal or at the deadline. */
static int await_helper(const struct helper *h, struct child *c, int *status, struct err *e)
{
    struct pollfd p[2] = {{.fd = c->fd, .events = POLLIN}, {.fd = interrupt_fd(), .events = POLLIN}};
    int rc = 0;

    while (rc == 0 && !(p[0].revents & POLLIN)) {
        double left = h->deadline > 0 ? h->deadline - clock_now() : 3600;

        poll(p, 2, left > 0 ? (int)fmin(left * 1e3 + 1, 3.6e6) : 0);
        rc = check_time(h, e);
    }
    *status = rc < 0 ? child_end(c, GRACE_S) : child_wait(c);
    return rc;
}

static int run_helper(const struct helper *h, int *status, struct err *e)
{
    char dir[PATH_MAX], program[PATH_MAX];
    char *argv[HELPER_ARGS + 3] = {program, h->folder};
    const struct child_how how = {
        .argv = argv, .folder = h->cwd, .out = STDOUT_FILENO, .err = STDERR_FILENO, .is_foreign = h->codec};
    struct child c;

    for (int i = 0; i < HELPER_ARGS && h->args[i]; i++)
        argv[2 + i] = h->args[i];
    if (file_exe_dir(dir, sizeof dir, e) < 0 || file_join(program, sizeof program, dir, h->program, e) < 0 ||
        child_start(&c, &how, e) < 0)
        return e->code;
    return await_helper(h, &c, status, e);
}

int helper_run(json_t **out, const struct helper *h, struct err *e)
{
    int code = h->codec ? ERR_CODEC : ERR_INTERNAL;
    int status, rc;

    if (run_helper(h, &status, e) < 0)
        return e->code;
    if (WIFSIGNALED(status)) {
        err_set(e, code, "the %s was killed by signal %d (%s)", h->program, WTERMSIG(status),
                strsignal(WTERMSIG(status)));
        return h->codec ? err_hint(e,
                                   "It runs the codec's code: codec %s has a bug, or the machine is out "
                                   "of memory.",
                                   h->codec)
                        : err_hint(e, "The machine may be out of memory.");
    }
    rc = helper_summary_read(out, h->folder, h->program, e);
    if (rc != ERR_NOT_FOUND)
        return rc;
    err_set(e, code, "the %s ended with status %d and no summary", h->program, WEXITSTATUS(status));
    return h->codec ? err_hint(e, "Does codec %s call exit?", h->codec) : e->code;
}
