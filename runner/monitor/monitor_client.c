/* monitor_client -- the job process's side of monitor.h. */
#include "runner/monitor/monitor.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runner/lines/orders.h"
#include "runner/monitor/monitor_wire.h"
#include "shared/base/fd_pass.h"
#include "shared/job/reason.h"

/* A killed process closes its descriptors one after the other, so for a moment one may be closed and another
 * open. */
enum { CLOSING_MS = 200 };

/* For the start of a program, whose files may be many. */
static const double START_S = 600;

int monitor_explain_loss(const struct monitor *m, struct err *e)
{
    if (m->hangs)
        return err_set(e, ERR_LOST, "this node's monitor process has not answered: it is stopped, or hangs");
    return err_set(e, ERR_LOST, "this node's monitor process has ended: it was killed, or it crashed");
}

static int lose_monitor(struct monitor *m, struct err *e)
{
    if (fcntl(m->fd, F_GETFD) < 0)
        return err_set(e, ERR_CODEC, ORDERS_CLOSED);
    m->is_lost = true;
    return monitor_explain_loss(m, e);
}

/* A monitor that is stopped never answers. After a signal, as that of the agent for a snapshot, the wait
 * begins anew. */
static bool is_answered(const struct monitor *m, double limit_s)
{
    struct pollfd p = {.fd = m->fd, .events = POLLIN};
    int n;

    do
        n = poll(&p, 1, (int)(limit_s * 1000));
    while (n < 0 && errno == EINTR);
    return n != 0;
}

/* *fd: the descriptor that came with the reply, or -1. */
static int ask_within(struct monitor *m, const struct monitor_request *r, double limit_s,
                      struct monitor_reply *reply, int *fd, struct err *e)
{
    ssize_t n;

    *fd = -1;
    if (m->hangs)
        return lose_monitor(m, e);
    do
        n = fd_pass_send(m->fd, r, sizeof *r, -1, 0);
    while (n < 0 && errno == EINTR);
    m->hangs = n > 0 && !is_answered(m, limit_s);
    if (m->hangs)
        return lose_monitor(m, e);
    while (n > 0 && (n = fd_pass_receive(m->fd, reply, sizeof *reply, fd, 0)) < 0 && errno == EINTR)
        n = 1;
    if (n != (ssize_t)sizeof *reply)
        return lose_monitor(m, e);
    return 0;
}

static int ask_monitor(struct monitor *m, const struct monitor_request *r, struct monitor_reply *reply,
                       int *fd, struct err *e)
{
    return ask_within(m, r, m->answer_s, reply, fd, e);
}

/* As the calls of struct tcp_dialer and struct shm_source: -1 and errno. */
static int ask_for_fd(struct monitor *m, const struct monitor_request *r)
{
    struct monitor_reply reply = {0};
    struct err e;
    int fd;

    if (ask_monitor(m, r, &reply, &fd, &e) < 0)
        errno = EPIPE;
    else if (reply.code)
        errno = reply.code;
    else if (fd < 0)
        errno = EMFILE; /* this process had no descriptor left to receive it */
    return fd;
}

static int find_addresses(void *owner, int node, struct tcp_places *out, struct err *e)
{
    struct monitor_request r = {.ask = MONITOR_FIND, .node = node};
    struct monitor_reply reply;
    int fd;

    if (ask_monitor(owner, &r, &reply, &fd, e) < 0)
        return e->code;
    if (reply.code)
        return err_set(e, ERR_LOST, "%s", reply.text);
    *out = reply.places;
    return 0;
}

static int dial_peer(void *owner, int node, uint32_t index, const struct tcp_aim *aim)
{
    return ask_for_fd(
        owner,
        &(struct monitor_request){
            .ask = MONITOR_DIAL, .node = node, .number = index, .is_probe = aim->is_probe, .tls = aim->tls});
}

static int ask_for_socket(struct monitor *m, enum monitor_ask kind, const uint8_t name[SHM_NAME_BYTES])
{
    struct monitor_request r = {.ask = (uint32_t)kind};

    memcpy(r.name, name, SHM_NAME_BYTES);
    return ask_for_fd(m, &r);
}

static int listen_at(void *owner, const uint8_t name[SHM_NAME_BYTES])
{
    return ask_for_socket(owner, MONITOR_LISTEN, name);
}

static int connect_to(void *owner, const uint8_t name[SHM_NAME_BYTES])
{
    return ask_for_socket(owner, MONITOR_CONNECT, name);
}

static int memory(void *owner, size_t bytes)
{
    return ask_for_fd(owner, &(struct monitor_request){.ask = MONITOR_MEMORY, .number = bytes});
}

struct tcp_dialer monitor_dialer(struct monitor *m)
{
    return (struct tcp_dialer){
        .find = find_addresses, .dial = dial_peer, .exchanges_hellos = true, .owner = m};
}

struct shm_source monitor_source(struct monitor *m)
{
    return (struct shm_source){.listen = listen_at, .connect = connect_to, .memory = memory, .owner = m};
}

int monitor_watch(struct monitor *m, bool is_executor, const char *name, double limit_s, struct err *e)
{
    struct monitor_request r = {.ask = MONITOR_WATCH, .node = is_executor, .seconds = limit_s};
    struct monitor_reply reply;
    int fd;

    snprintf(r.name, sizeof r.name, "%s", name);
    for (char *c = r.name; *c; c++) /* the monitor accepts printable names only */
        if (*c <= ' ' || *c > '~')
            *c = '?';
    if (ask_monitor(m, &r, &reply, &fd, e) < 0)
        return e->code;
    errno = reply.code;
    return reply.code ? err_errno(e, ERR_IO, "watching %s", name) : 0;
}

/* Memory of the vectors. The codec, which will be in this process, must not add a seal that keeps the program
 * from mapping it for writing. */
static int make_trainer_memory(struct monitor *m, uint64_t bytes, int *fd, struct err *e)
{
    *fd = memory(m, bytes);
    if (*fd >= 0 && fcntl(*fd, F_ADD_SEALS, F_SEAL_SEAL) == 0)
        return 0;
    err_errno(e, ERR_IO, "%llu bytes of memory for the vectors of the training program",
              (unsigned long long)bytes);
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
    return m->is_lost ? lose_monitor(m, e) : e->code;
}

/* The program first: while the memory is cleared, it loads its libraries. */
int monitor_start_trainer(struct monitor *m, uint64_t memory_bytes, int *fd, int *memory_fd, struct err *e)
{
    struct monitor_request r = {.ask = MONITOR_TRAINER};
    struct monitor_reply reply;

    *memory_fd = -1;
    if (ask_within(m, &r, START_S, &reply, fd, e) < 0)
        return e->code;
    if (reply.code)
        return err_set(e,
                       reply.code == ENOMEM   ? ERR_NOMEM
                       : reply.code == ENOSPC ? ERR_NOSPACE
                                              : ERR_TRAINER,
                       "%s", reply.text);
    if (*fd < 0) {
        errno = EMFILE;
        return err_errno(e, ERR_IO, "the training program's socket");
    }
    if (make_trainer_memory(m, memory_bytes, memory_fd, e) == 0)
        return 0;
    close(*fd);
    *fd = -1;
    return e->code;
}

int monitor_explain_trainer(struct monitor *m, struct err *e)
{
    struct monitor_request r = {.ask = MONITOR_TRAINER_EXPLAIN};
    struct monitor_reply reply;
    int fd;

    return ask_monitor(m, &r, &reply, &fd, e) < 0 ? e->code : err_set(e, ERR_TRAINER, "%s", reply.text);
}

int monitor_release_trainer(struct monitor *m, bool has_failed, struct err *e)
{
    struct monitor_request r = {.ask = MONITOR_TRAINER_RELEASE, .number = has_failed};
    struct monitor_reply reply;
    int fd;

    return ask_monitor(m, &r, &reply, &fd, e);
}

int monitor_end_trainer(struct monitor *m, double grace_s, bool *has_ended, struct err *e)
{
    struct monitor_request r = {.ask = MONITOR_TRAINER_END, .seconds = grace_s};
    struct monitor_reply reply;
    int fd;

    if (ask_monitor(m, &r, &reply, &fd, e) < 0)
        return e->code;
    *has_ended = reply.code == 0;
    return 0;
}

int monitor_explain_end(struct monitor *m, struct err *e)
{
    struct pollfd p = {.fd = m->fd};

    if (poll(&p, 1, CLOSING_MS) > 0 && (p.revents & (POLLHUP | POLLERR | POLLNVAL)))
        return lose_monitor(m, e);
    return err_set(e, ERR_LOST, "the agent has ended");
}

/* The guard of monitor_guard_exit. */
static struct {
    const struct stopwatch *watch; /* NULL: an exit is allowed */
    struct report *report;
    char message[192];
} guard;

static void check_exit(void)
{
    if (!guard.watch || !stopwatch_in_codec(guard.watch))
        return;
    fprintf(stderr, REASON_CODEC_FAILED ": %s\n", guard.message);
    report_end(guard.report, "failed", REASON_CODEC_FAILED, guard.message);
    _exit(1);
}

int monitor_guard_exit(const struct stopwatch *watch, const char *kind, const char *name, struct report *r,
                       struct err *e)
{
    guard.report = r;
    guard.watch = watch;
    snprintf(guard.message, sizeof guard.message, "%s %s has called exit: a node ends when its job does",
             kind, name);
    return atexit(check_exit) == 0 ? 0 : err_set(e, ERR_NOMEM, "no memory for an exit handler");
}

void monitor_allow_exit(void)
{
    guard.watch = NULL;
}
