#include "agent/base/inquiry.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shared/base/clock.h"

enum { ANSWER_MAX = 16 << 10 };

/* Until the process is killed; for how long an answer is given again. */
static const double ASK_S = 10, FRESH_S = 10;

int inquiry_unblock_signals(void)
{
    sigset_t none;

    sigemptyset(&none);
    return sigprocmask(SIG_SETMASK, &none, NULL);
}

static void finish_asking(struct inquiry *q, const char *text, size_t len, const struct err *failure)
{
    close(q->out);
    timer_cancel(q->loop, &q->deadline);
    q->answered_at = clock_now();
    q->answered(q->arg, text, len, failure);
    (*q->n_changes)++;
}

static void process_has_ended(void *arg, uint32_t events)
{
    struct inquiry *q = arg;
    char text[ANSWER_MAX];
    struct err e = {0};
    ssize_t n;
    int status;

    (void)events;
    loop_unwatch(q->loop, &q->watch); /* before child_wait closes the descriptor */
    status = child_wait(&q->child);
    n = read(q->out, text, sizeof text);
    if (WIFSIGNALED(status))
        err_set(&e, ERR_IO, "killed by signal %d (%s)", WTERMSIG(status), strsignal(WTERMSIG(status)));
    else if (WEXITSTATUS(status) != 0 || n <= 0)
        err_set(&e, ERR_IO, "ended with status %d; %s", WEXITSTATUS(status), q->doubt);
    finish_asking(q, text, n > 0 ? (size_t)n : 0, &e);
}

static void process_is_late(void *arg)
{
    struct inquiry *q = arg;
    struct err e;

    loop_unwatch(q->loop, &q->watch);
    child_end(&q->child, 0);
    err_set(&e, ERR_TIMEOUT, "no answer within %g s", ASK_S);
    finish_asking(q, "", 0, &e);
}

static int start_process(struct inquiry *q, struct child_how *how, struct err *e)
{
    int fds[2], rc;

    if (pipe2(fds, O_CLOEXEC) < 0)
        return err_call(e, ERR_IO, CALL_PIPE, "%s: pipe", how->argv[0]);
    /* A process that this one has left may keep the other end open: the agent does not wait for it. */
    fcntl(fds[0], F_SETFL, O_NONBLOCK);
    how->out = fds[1];
    rc = child_start(&q->child, how, e);
    close(fds[1]);
    if (rc < 0)
        close(fds[0]);
    else
        q->out = fds[0];
    return rc;
}

int inquiry_ask(struct inquiry *q, struct child_how *how, struct err *e)
{
    if (start_process(q, how, e) < 0)
        return e->code;
    q->watch = (struct watch){.fd = q->child.fd, .ready = process_has_ended, .arg = q};
    if (loop_watch(q->loop, &q->watch, EPOLLIN, e) < 0) {
        child_end(&q->child, 0);
        close(q->out);
        return e->code;
    }
    q->deadline = (struct timer){.due = process_is_late, .arg = q};
    timer_set(q->loop, &q->deadline, clock_now() + ASK_S);
    return 0;
}

bool inquiry_is_open(const struct inquiry *q)
{
    return q->watch.on;
}

bool inquiry_is_fresh(const struct inquiry *q)
{
    return q->watch.on || (q->answered_at > 0 && clock_now() < q->answered_at + FRESH_S);
}

bool inquiry_is_own(const struct inquiry *q, pid_t child)
{
    return q->watch.on && q->child.pid == child;
}

void inquiry_close(struct inquiry *q)
{
    if (!q->watch.on)
        return;
    loop_unwatch(q->loop, &q->watch);
    timer_cancel(q->loop, &q->deadline);
    child_end(&q->child, 0);
    close(q->out);
}
