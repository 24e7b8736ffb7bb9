/* monitor -- starts the monitor process, and its first thread: it passes on the agent's orders, ends a codec
 * that does not return and a job beyond its time limit, and kills the node. monitor_answer.c is the second
 * thread. */
#include "runner/monitor/monitor.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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
#include "shared/job/reason.h"

enum { KILL_ROUNDS = 100 };

/* The agent ends the job at the limit itself. This margin is for a node whose agent has ended or hangs. */
static const double ANSWER_S = 60;
static const double LIMIT_MARGIN_S = 1;
static const double LIMIT_GRACE_S = 2; /* as the agent's: from SIGTERM to SIGKILL */
static const double ORPHAN_GRACE_S =
    5; /* without its agent the job process ends when it has loaded the packages */
static const double PERIOD_MAX_S = 1, BEFORE_START_MAX_S = 60;

/* The agent's orders. */

static void close_relay(struct monitor_state *m)
{
    if (m->relay_fd >= 0)
        close(m->relay_fd);
    m->relay_fd = -1;
}

/* Keeps the list of peers, without the secret. */
static void take_peers(struct monitor_state *m, const char *line, size_t len)
{
    struct orders_start s;
    struct err e;

    if (orders_parse_start(&s, line, len, &e) < 0)
        return;
    m->attempt = (uint32_t)s.attempt;
    m->peers = calloc(s.peers.n + 1, sizeof *m->peers);
    if (m->peers) {
        m->list = s.peers;
        s.peers = (struct peer_list){0};
    }
    orders_start_clear(&s);
}

/* Reads the parts of a line that the monitor itself needs. A line that cannot be parsed is passed on as it
 * is, because the job process finds the same error and reports it. */
static void take_line(struct monitor_state *m, const char *line, size_t len)
{
    struct err e;

    if (m->n_orders == 0 && orders_parse_job(&m->job_order, line, len, &e) < 0)
        m->job_order = (struct orders_job){0};
    if (m->n_orders == 1)
        take_peers(m, line, len);
    if (m->n_orders == 1 && m->job_order.time_limit_s > 0)
        m->limit_at = clock_now() + m->job_order.time_limit_s;
    m->n_orders++;
}

static bool has_unsent_order(const struct monitor_state *m)
{
    const char *line;
    size_t len;

    return m->relay_fd >= 0 && orders_line(&m->orders, &line, &len);
}

static void read_orders(struct monitor_state *m)
{
    struct err e;

    if (orders_fill(&m->orders, &e) == 0)
        return;
    /* From the start order on, a runner continues without its agent, unless it is of a job folder; before,
     * the end of file ends the job process. */
    if (m->n_orders < 2)
        m->end_at = clock_now() + ORPHAN_GRACE_S;
    else if (m->job_order.ends_with_agent)
        m->end_at = clock_now();
    orders_close(&m->orders);
    close_relay(m);
}

/* Passes on as much as the pipe takes, without blocking. A closed pipe is no error: the monitor notices the
 * end of the job process by its pidfd. */
static void pass_orders(struct monitor_state *m)
{
    const char *line;
    size_t len;

    while (m->relay_fd >= 0 && orders_line(&m->orders, &line, &len)) {
        ssize_t n;

        if (m->n_relayed == 0)
            take_line(m, line, len);
        n = write(m->relay_fd, line + m->n_relayed, len + 1 - m->n_relayed);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (n < 0) {
            close_relay(m);
            return;
        }
        m->n_relayed += (size_t)n;
        if (m->n_relayed <= len)
            continue;
        orders_drop(&m->orders);
        m->n_relayed = 0;
    }
}

/* Time. */

static bool is_stopped(pid_t pid)
{
    struct process p;

    return process_look(&p, pid) && p.is_stopped;
}

static double call_period(const struct monitor_state *m)
{
    return fmin(m->call_limit_s / 4, PERIOD_MAX_S);
}

/* Adds the time since the last check to the time of the present call. The monitor checks once a period: if
 * more than two periods have passed, the monitor itself was stopped, and only two are added. */
static void follow_call(struct monitor_state *m, double now)
{
    struct monitor_call *c = &m->call;
    bool is_inside = stopwatch_in_codec(m->watch);
    double since = stopwatch_since(m->watch);

    if (!is_inside || since != c->since)
        *c = (struct monitor_call){.since = since, .seen_at = is_inside ? fmin(since, now) : now};
    if (is_inside && !is_stopped(m->job))
        c->took_s += fmin(now - c->seen_at, 2 * call_period(m));
    c->seen_at = now;
}

void monitor_report(struct monitor_state *m, const char *reason, const char *message)
{
    fprintf(stderr, "%s: %s\n", reason, message);
    report_end(&m->report, "failed", reason, message);
}

/* Before the start, job_submit waits two minutes for a node: the limit must be shorter. */
static double call_limit(const struct monitor_state *m)
{
    return m->n_orders < 2 ? fmin(m->call_limit_s, BEFORE_START_MAX_S) : m->call_limit_s;
}

static bool has_hung(struct monitor_state *m, double now)
{
    char text[224], what[96];

    if (m->call_limit_s == 0)
        return false;
    follow_call(m, now);
    if (m->call.took_s <= call_limit(m))
        return false;
    stopwatch_name_call(what, sizeof what, m->watch, m->is_executor);
    snprintf(text, sizeof text, "%s %s has not %s for %.3g s: does it loop?",
             m->is_executor ? "executor" : "codec", m->codec, what, call_limit(m));
    monitor_report(m, REASON_CODEC_FAILED, text);
    return true;
}

/* The agent uses the first end line only: not the one that the job process reports after SIGTERM. */
static void end_reported(struct monitor_state *m, double now)
{
    kill(m->job, SIGTERM);
    m->kill_at = now + LIMIT_GRACE_S;
}

static void check_limit(struct monitor_state *m, double now)
{
    if (m->limit_at == 0 || now < m->limit_at + LIMIT_MARGIN_S || m->kill_at > 0)
        return;
    monitor_report(m, REASON_TIME_LIMIT, "the job's time limit is over");
    end_reported(m, now);
}

/* Does what is due at `now`. Returns whether the node must be killed: its end is reported. */
static bool check_time(struct monitor_state *m, double now)
{
    check_limit(m, now);
    if (monitor_trainer_check(m, now) && m->kill_at == 0)
        end_reported(m, now);
    if (m->end_at > 0 && now >= m->end_at)
        return true;
    if (m->kill_at > 0)
        return now > m->kill_at;
    return has_hung(m, now);
}

static double until(double at, double now, double next)
{
    return at > 0 ? fmin(next, fmax(at - now, 0)) : next;
}

/* Returns the seconds until the next check of time. */
static double time_period(const struct monitor_state *m, double now)
{
    double next = m->call_limit_s > 0 ? call_period(m) : 3600;

    if (m->limit_at > 0 && m->kill_at == 0)
        next = until(m->limit_at + LIMIT_MARGIN_S, now, next);
    next = until(m->end_at, now, next);
    next = until(monitor_trainer_due(m), now, next);
    return until(m->kill_at, now, next);
}

/* The process. */

static bool is_self(void *arg, pid_t child)
{
    (void)arg;
    return child == getpid();
}

/* The job process is stopped first, so that it starts no more processes and remains the parent of those that
 * it has started. It is the leader of the process group, unless a test has forked it. */
static _Noreturn void kill_node(struct monitor_state *m)
{
    kill(m->job, SIGSTOP);
    for (int i = 0; i < KILL_ROUNDS && process_kill_descendants(m->job, is_self, NULL) > 0; i++)
        continue;
    monitor_trainer_kill(m);
    kill(m->job, SIGKILL);
    if (getpgrp() == m->job)
        kill(0, SIGKILL);
    _exit(0);
}

/* The second thread. When the job process has closed its socket, it has no more to do, but it must not end:
 * the kernel would end the training program, which this thread has started. */
static void *answer_requests(void *arg)
{
    struct monitor_state *m = arg;

    monitor_answer(m);
    close(m->request_fd);
    for (;;)
        pause();
    return NULL;
}

/* Its waits with a limit are of clock_now. */
static bool make_condition(pthread_cond_t *out)
{
    pthread_condattr_t how;

    return pthread_condattr_init(&how) == 0 && pthread_condattr_setclock(&how, CLOCK_MONOTONIC) == 0 &&
           pthread_cond_init(out, &how) == 0;
}

static bool start_answering(struct monitor_state *m)
{
    enum {
        STACK = 1 << 20
    }; /* the default size could exceed the limit of memory, which the monitor has inherited */
    pthread_attr_t small;
    pthread_t thread;

    pthread_mutex_init(&m->lock, NULL);
    m->answer_poll = epoll_create1(EPOLL_CLOEXEC);
    return m->answer_poll >= 0 && make_condition(&m->trainer_ended) && pthread_attr_init(&small) == 0 &&
           pthread_attr_setstacksize(&small, STACK) == 0 &&
           pthread_attr_setdetachstate(&small, PTHREAD_CREATE_DETACHED) == 0 &&
           pthread_create(&thread, &small, answer_requests, m) == 0;
}

/* What the first thread waits for. */
enum { WAIT_ORDERS, WAIT_RELAY, WAIT_JOB, WAIT_TRAINER, N_WAITS = WAIT_TRAINER + TRAINER_POLLS };

/* The first thread: reads orders and checks limits. Returns when the job process has ended. */
static void watch_node(struct monitor_state *m, int job_fd)
{
    pthread_mutex_lock(&m->lock);
    for (;;) {
        bool is_full = has_unsent_order(m);
        struct pollfd p[N_WAITS] = {[WAIT_ORDERS] = {.fd = is_full ? -1 : m->orders.fd, .events = POLLIN},
                                    [WAIT_RELAY] = {.fd = is_full ? m->relay_fd : -1, .events = POLLOUT},
                                    [WAIT_JOB] = {.fd = job_fd, .events = POLLIN}};
        double now = clock_now(), wait_s = fmin(time_period(m, now), fmax(m->memory_at - now, 0));
        int rc;

        monitor_trainer_poll(m, p + WAIT_TRAINER);
        pthread_mutex_unlock(&m->lock);
        rc = poll(p, N_WAITS, (int)ceil(wait_s * 1e3));
        if (rc < 0 && errno != EINTR)
            return;
        pthread_mutex_lock(&m->lock);
        if (rc > 0 && p[WAIT_JOB].revents)
            return;
        if (rc > 0 && p[WAIT_ORDERS].revents)
            read_orders(m);
        pass_orders(m);
        if (rc > 0)
            monitor_trainer_follow(m, p + WAIT_TRAINER, clock_now());
        if (check_time(m, clock_now()) || monitor_check_memory(m, clock_now()))
            kill_node(m);
    }
}

/* Signals to the group are for the job process; SIGKILL is for both. */
static void ignore_signals(void)
{
    static const int ignored[] = {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGPIPE, SIGXFSZ};
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
        watch_node(m, job_fd);
    monitor_trainer_kill(m);
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

/* The limit of a file's size is for the job process: memory that the monitor makes for it is a file, too, and
 * counts against the limit of memory. */
static void lift_file_size(void)
{
    struct rlimit l;

    if (getrlimit(RLIMIT_FSIZE, &l) == 0) {
        l.rlim_cur = l.rlim_max;
        setrlimit(RLIMIT_FSIZE, &l);
    }
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
    lift_file_size();
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
    *m = (struct monitor){.fd = f.request[1], .orders_fd = f.relay[0], .watch = watch, .answer_s = ANSWER_S};
    return pid < 0 ? e->code : 0;
}
