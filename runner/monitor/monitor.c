#include "runner/monitor/monitor.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runner/monitor/monitor_state.h"
#include "shared/base/clock.h"
#include "shared/base/compat.h"
#include "shared/base/process.h"
#include "shared/base/process_tree.h"

enum { KILL_ROUNDS = 100 };

static bool is_self(void *arg, pid_t child)
{
    (void)arg;
    return child == getpid();
}

/* Stopped first, the job process starts no more processes, and stays the parent of those it has. It is the
 * leader of the process group, unless a test has forked it. */
static _Noreturn void kill_node(const struct monitor_state *m)
{
    kill(m->job, SIGSTOP);
    for (int i = 0; i < KILL_ROUNDS && process_tree_kill(m->job, is_self, NULL) > 0; i++)
        continue;
    kill(m->job, SIGKILL);
    if (getpgrp() == m->job)
        kill(0, SIGKILL);
    _exit(0);
}

/* The second thread. It ends with the conversation, or the process. */
static void *answer_requests(void *arg)
{
    struct monitor_state *m = arg;

    monitor_answer(m);
    close(m->request_fd);
    return NULL;
}

static bool start_answering(struct monitor_state *m)
{
    enum {
        STACK = 1 << 20
    }; /* the usual one could be more than the limit of memory, which is the monitor's, too */
    pthread_attr_t small;
    pthread_t thread;

    pthread_mutex_init(&m->lock, NULL);
    m->answer_poll = epoll_create1(EPOLL_CLOEXEC);
    return m->answer_poll >= 0 && pthread_attr_init(&small) == 0 &&
           pthread_attr_setstacksize(&small, STACK) == 0 &&
           pthread_attr_setdetachstate(&small, PTHREAD_CREATE_DETACHED) == 0 &&
           pthread_create(&thread, &small, answer_requests, m) == 0;
}

/* Returns when the job process has ended. */
static void loop(struct monitor_state *m, int job_fd)
{
    pthread_mutex_lock(&m->lock);
    for (;;) {
        bool is_full = monitor_has_unsent_order(m);
        struct pollfd p[] = {{.fd = is_full ? -1 : m->orders.fd, .events = POLLIN},
                             {.fd = is_full ? m->relay_fd : -1, .events = POLLOUT},
                             {.fd = job_fd, .events = POLLIN}};
        double now = clock_now(), wait_s = fmin(monitor_period(m, now), fmax(m->memory_at - now, 0));
        int rc;

        pthread_mutex_unlock(&m->lock);
        rc = poll(p, sizeof p / sizeof *p, (int)ceil(wait_s * 1e3));
        if (rc < 0 && errno != EINTR)
            return;
        pthread_mutex_lock(&m->lock);
        if (rc > 0 && p[2].revents)
            return;
        if (rc > 0 && p[0].revents)
            monitor_read_orders(m);
        monitor_pass_orders(m);
        if (monitor_check_time(m, clock_now()) || monitor_check_memory(m, clock_now()))
            kill_node(m);
    }
}

/* Signals to the group are for the job process; SIGKILL is for both. */
static void ignore_signals(void)
{
    static const int ignored[] = {SIGTERM, SIGINT, SIGHUP, SIGPIPE, SIGXFSZ};
    const struct sigaction ignore = {.sa_handler = SIG_IGN};

    for (size_t i = 0; i < sizeof ignored / sizeof *ignored; i++)
        sigaction(ignored[i], &ignore, NULL);
}

static _Noreturn void monitor_main(struct monitor_state *m)
{
    int job_fd = compat_pidfd_open(m->job);

    ignore_signals();
    prctl(PR_SET_NAME, "job_monitor");
    prctl(PR_SET_DUMPABLE, 0); /* no other process of this user reads its memory */
    if (job_fd >= 0 && getppid() == m->job && start_answering(m))
        loop(m, job_fd);
    _exit(0);
}

/* The ends of the two channels, by process. */
struct ends {
    int request[2], relay[2]; /* the monitor's first, of the relay the second */
};

static int open_ends(struct ends *f, struct err *e)
{
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, f->request) < 0)
        return err_errno(e, ERR_IO, "socketpair");
    if (pipe2(f->relay, O_CLOEXEC) == 0)
        return 0;
    err_call(e, ERR_IO, CALL_PIPE, "pipe");
    close(f->request[0]);
    close(f->request[1]);
    return e->code;
}

static _Noreturn void become_monitor(const struct ends *f, int control_fd, int listen_fd,
                                     const struct report *r, const struct stopwatch *watch, pid_t job)
{
    struct monitor_state m = {
        .job = job, .report = *r, .watch = watch, .request_fd = f->request[0], .relay_fd = f->relay[1]};
    struct rlimit data;

    close(f->request[1]);
    close(f->relay[0]);
    close(listen_fd);
    m.memory_most = m.memory_left = getrlimit(RLIMIT_DATA, &data) == 0 ? data.rlim_cur : RLIM_INFINITY;
    m.status_fd = process_open_status(job);
    fcntl(m.relay_fd, F_SETFL, O_NONBLOCK);
    orders_open(&m.orders, control_fd);
    monitor_main(&m);
}

int monitor_start(struct monitor *m, int control_fd, int listen_fd, const struct report *r, struct err *e)
{
    struct stopwatch *watch = mmap(NULL, sizeof *watch, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
                                   -1, 0);
    pid_t job = getpid(), pid;
    struct ends f;

    if (watch == MAP_FAILED)
        return err_call(e, ERR_IO, CALL_MAP, "a page shared with the monitor");
    if (open_ends(&f, e) < 0)
        return e->code;
    pid = fork();
    if (pid == 0)
        become_monitor(&f, control_fd, listen_fd, r, watch, job);
    if (pid < 0)
        err_call(e, ERR_IO, CALL_FORK, "fork");
    close(f.request[0]);
    close(f.relay[1]);
    close(control_fd);
    *m = (struct monitor){.fd = f.request[1], .orders_fd = f.relay[0], .watch = watch};
    return pid < 0 ? e->code : 0;
}
