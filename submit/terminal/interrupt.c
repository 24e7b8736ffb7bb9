#include "submit/terminal/interrupt.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <unistd.h>

/* The signal received, or 0. The handler may run on any thread, including curl's. Relaxed order suffices:
 * the value orders no other memory, and the pipe wakes the poll. */
static atomic_int received;
static int pipe_fd[2] = {-1, -1};

static void on_signal(int sig)
{
    int saved = errno;

    if (atomic_exchange_explicit(&received, sig, memory_order_relaxed))
        _exit(128 + sig);
    if (write(pipe_fd[1], "", 1) < 0) {
        /* the pipe is full, so the poll wakes anyway */
    }
    errno = saved;
}

/* True under nohup. (A shell starts background jobs with SIGINT ignored, and kill -INT must still work:
 * only SIGHUP is checked.) */
static bool is_ignored(int sig)
{
    struct sigaction before;

    return sigaction(sig, NULL, &before) == 0 && before.sa_handler == SIG_IGN;
}

int interrupt_init(struct err *e)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction a = {.sa_handler = on_signal, .sa_flags = SA_RESTART};

    if (pipe2(pipe_fd, O_CLOEXEC | O_NONBLOCK) < 0)
        return err_call(e, ERR_IO, CALL_PIPE, "pipe");
    /* If a parent left SIGCHLD ignored, the children's exit statuses would be lost. */
    signal(SIGCHLD, SIG_DFL);
    sigfillset(&a.sa_mask);
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        if (signals[i] != SIGHUP || !is_ignored(SIGHUP))
            sigaction(signals[i], &a, NULL);
    return 0;
}

int interrupt_signal(void)
{
    return atomic_load_explicit(&received, memory_order_relaxed);
}

int interrupt_fd(void)
{
    return pipe_fd[0];
}

void interrupt_drain(void)
{
    char bytes[8];

    while (pipe_fd[0] >= 0 && read(pipe_fd[0], bytes, sizeof bytes) > 0)
        ;
}

int interrupt_check(struct err *e)
{
    if (!interrupt_signal())
        return 0;
    return err_set(e, ERR_CANCELLED, "%s",
                   interrupt_signal() == SIGINT ? "interrupted (Ctrl-C)" : "interrupted by a signal");
}
