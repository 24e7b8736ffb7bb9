/* monitor_answer -- the monitor's answers to the requests of the job process (monitor_wire.h). */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runner/monitor/monitor_state.h"
#include "runner/shm/shm_source.h"
#include "shared/base/fd_pass.h"
#include "shared/base/utf8.h"

enum { PAGE = 4096, TRAINER_GRACE_MAX_S = 600 };

static bool is_zero_from(const char *name, size_t i)
{
    while (i < MONITOR_NAME_MAX && name[i] == '\0')
        i++;
    return i == MONITOR_NAME_MAX;
}

static bool is_name(const char *name)
{
    size_t n = 0;

    while (n < MONITOR_NAME_MAX && name[n] > ' ' && name[n] <= '~')
        n++;
    return n > 0 && n < MONITOR_NAME_MAX && is_zero_from(name, n);
}

static bool is_watch(const struct monitor_request *r)
{
    return is_name(r->name) && isfinite(r->seconds) && r->seconds > 0 && (r->node == 0 || r->node == 1) &&
           r->number == 0;
}

static bool is_find(const struct monitor_request *r)
{
    return is_zero_from(r->name, 0) && r->seconds == 0 && r->number == 0;
}

static bool is_dial(const struct monitor_request *r)
{
    return is_zero_from(r->name, 0) && r->seconds == 0 && r->number < ADDRESSES_MAX && r->is_probe <= 1 &&
           r->tls <= MESH_TLS_OFF;
}

static bool is_of_socket(const struct monitor_request *r)
{
    return is_zero_from(r->name, SHM_NAME_BYTES) && r->seconds == 0 && r->node == 0 && r->number == 0;
}

static bool is_memory(const struct monitor_request *r)
{
    return is_zero_from(r->name, 0) && r->seconds == 0 && r->node == 0 && r->number > 0 &&
           r->number % PAGE == 0 && r->number <= INT64_MAX;
}

static bool is_release(const struct monitor_request *r)
{
    return is_zero_from(r->name, 0) && r->seconds == 0 && r->node == 0 && r->number <= 1;
}

static bool is_plain(const struct monitor_request *r)
{
    return is_zero_from(r->name, 0) && r->seconds == 0 && r->node == 0 && r->number == 0;
}

static bool is_end_of_trainer(const struct monitor_request *r)
{
    return is_zero_from(r->name, 0) && r->seconds >= 0 && r->seconds <= TRAINER_GRACE_MAX_S && r->node == 0 &&
           r->number == 0;
}

static void set_code(struct monitor_reply *reply, bool has_failed)
{
    reply->code = has_failed ? (errno ? errno : EIO) : 0;
}

/* The first request counts: a loaded codec cannot change the limit and the name. */
static void do_watch(struct monitor_state *m, const struct monitor_request *r, struct monitor_reply *reply,
                     int *fd)
{
    (void)fd;
    if (m->call_limit_s > 0) {
        reply->code = EALREADY;
        return;
    }
    memcpy(m->codec, r->name, sizeof m->codec);
    m->is_executor = r->node == 1;
    m->call_limit_s = r->seconds;
}

/* Waits for name servers without the lock: the submitter chooses the name, and its server may not answer. */
static void resolve_peer(struct monitor_state *m, struct monitor_peer *p, struct err *e)
{
    struct tcp_places found;
    int rc;

    pthread_mutex_unlock(&m->lock);
    rc = tcp_find(&found, p->at.node, p->at.host, p->at.port, e);
    pthread_mutex_lock(&m->lock);
    if (rc == 0)
        p->places = found;
}

/* A node of a large job needs few of the peers in its list. */
static struct monitor_peer *take_peer(struct monitor_state *m, int node, struct err *e)
{
    long i = peer_list_find(&m->list, node);
    struct monitor_peer *p;

    if (i < 0) {
        err_set(e, ERR_LOST, "node %d is not in the agent's list of nodes", node);
        return NULL;
    }
    if (m->peers[i])
        return m->peers[i];
    p = m->peers[i] = calloc(1, sizeof *p);
    if (!p) {
        err_set(e, ERR_NOMEM, "no memory for the address of node %d", node);
        return NULL;
    }
    p->index = (size_t)i;
    p->at.node = node;
    p->at.port = m->list.at[i].data_port;
    snprintf(p->at.host, sizeof p->at.host, "%s", m->list.at[i].host);
    return p;
}

/* Returns NULL and sets the reply if the node is not a peer, or has no address. */
static struct monitor_peer *find_peer(struct monitor_state *m, int node, struct monitor_reply *reply)
{
    struct err e = {0};
    struct monitor_peer *p = take_peer(m, node, &e);

    if (p && p->places.n == 0)
        resolve_peer(m, p, &e);
    if (!e.code)
        return p;
    reply->code = EHOSTUNREACH;
    snprintf(reply->text, sizeof reply->text, "%.*s", (int)sizeof reply->text - 1, e.text);
    return NULL;
}

static void do_find(struct monitor_state *m, const struct monitor_request *r, struct monitor_reply *reply,
                    int *fd)
{
    const struct monitor_peer *p = find_peer(m, r->node, reply);

    (void)fd;
    if (p)
        reply->places = p->places;
}

static void do_dial(struct monitor_state *m, const struct monitor_request *r, struct monitor_reply *reply,
                    int *fd)
{
    const struct tcp_aim aim = {.is_probe = r->is_probe, .tls = (enum mesh_tls)r->tls};
    struct monitor_peer *p = find_peer(m, r->node, reply);

    if (!p)
        return;
    errno = EHOSTUNREACH; /* the peer has no such place */
    if (r->number < p->places.n)
        *fd = monitor_dial(m, p, (uint32_t)r->number, &aim);
    set_code(reply, *fd < 0);
}

static void do_listen(struct monitor_state *m, const struct monitor_request *r, struct monitor_reply *reply,
                      int *fd)
{
    (void)m;
    *fd = shm_own.listen(NULL, (const uint8_t *)r->name);
    set_code(reply, *fd < 0);
}

static void do_connect(struct monitor_state *m, const struct monitor_request *r, struct monitor_reply *reply,
                       int *fd)
{
    (void)m;
    *fd = shm_own.connect(NULL, (const uint8_t *)r->name);
    set_code(reply, *fd < 0);
}

static void do_memory(struct monitor_state *m, const struct monitor_request *r, struct monitor_reply *reply,
                      int *fd)
{
    *fd = monitor_make_memory(m, r->number);
    set_code(reply, *fd < 0);
}

static void do_trainer(struct monitor_state *m, const struct monitor_request *r, struct monitor_reply *reply,
                       int *fd)
{
    struct err e = {0};

    (void)r;
    *fd = monitor_trainer_start(m, &e);
    if (*fd >= 0)
        return;
    reply->code = e.code == ERR_NOMEM ? ENOMEM : e.code == ERR_NOSPACE ? ENOSPC : ENOEXEC;
    snprintf(reply->text, sizeof reply->text, "%.*s", (int)utf8_whole(e.text, sizeof reply->text - 1),
             e.text);
}

static void do_explain_trainer(struct monitor_state *m, const struct monitor_request *r,
                               struct monitor_reply *reply, int *fd)
{
    (void)r;
    (void)fd;
    monitor_trainer_explain(m, reply->text, sizeof reply->text);
}

static void do_release_trainer(struct monitor_state *m, const struct monitor_request *r,
                               struct monitor_reply *reply, int *fd)
{
    (void)reply;
    (void)fd;
    monitor_trainer_release(m, r->number == 1);
}

static void do_end_trainer(struct monitor_state *m, const struct monitor_request *r,
                           struct monitor_reply *reply, int *fd)
{
    (void)fd;
    reply->code = monitor_trainer_end(m, r->seconds) ? 0 : EAGAIN;
}

static const struct {
    bool (*is_valid)(const struct monitor_request *);
    void (*run)(struct monitor_state *, const struct monitor_request *, struct monitor_reply *, int *fd);
} asks[N_MONITOR_ASKS] = {
    [MONITOR_WATCH] = {is_watch, do_watch},
    [MONITOR_FIND] = {is_find, do_find},
    [MONITOR_DIAL] = {is_dial, do_dial},
    [MONITOR_LISTEN] = {is_of_socket, do_listen},
    [MONITOR_CONNECT] = {is_of_socket, do_connect},
    [MONITOR_MEMORY] = {is_memory, do_memory},
    [MONITOR_TRAINER] = {is_plain, do_trainer},
    [MONITOR_TRAINER_EXPLAIN] = {is_plain, do_explain_trainer},
    [MONITOR_TRAINER_RELEASE] = {is_release, do_release_trainer},
    [MONITOR_TRAINER_END] = {is_end_of_trainer, do_end_trainer},
};

int monitor_request_parse(struct monitor_request *out, const void *packet, size_t len)
{
    struct monitor_request r;

    if (len != sizeof r)
        return EPROTO;
    memcpy(&r, packet, sizeof r);
    if (r.ask >= N_MONITOR_ASKS || !asks[r.ask].is_valid || !asks[r.ask].is_valid(&r))
        return EPROTO;
    *out = r;
    return 0;
}

void monitor_do(struct monitor_state *m, const struct monitor_request *r, struct monitor_reply *reply,
                int *fd)
{
    *reply = (struct monitor_reply){0};
    *fd = -1;
    pthread_mutex_lock(&m->lock);
    asks[r->ask].run(m, r, reply, fd);
    pthread_mutex_unlock(&m->lock);
}

/* Handles a request and sends its reply. Returns false after an invalid request, and when there are no
 * more. */
static bool answer_request(struct monitor_state *m)
{
    struct monitor_request packet, request;
    struct monitor_reply reply;
    int fd;
    ssize_t n = fd_pass_receive(m->request_fd, &packet, sizeof packet, &fd, MSG_DONTWAIT);

    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return true;
    if (fd >= 0)
        close(fd);
    if (n <= 0 || fd >= 0 || monitor_request_parse(&request, &packet, (size_t)n) != 0)
        return false;
    monitor_do(m, &request, &reply, &fd);
    n = fd_pass_send(m->request_fd, &reply, sizeof reply, fd, MSG_DONTWAIT);
    if (fd >= 0)
        close(fd);
    return n == (ssize_t)sizeof reply;
}

void monitor_answer(struct monitor_state *m)
{
    struct epoll_event requests = {.events = EPOLLIN, .data.u64 = MONITOR_REQUESTS}, ev;
    bool goes_on = epoll_ctl(m->answer_poll, EPOLL_CTL_ADD, m->request_fd, &requests) == 0;

    /* One event at a time: its handler may close the socket of another. */
    while (goes_on) {
        int n = epoll_wait(m->answer_poll, &ev, 1, monitor_end_silent_dials(m));

        if (n == 1 && ev.data.u64 == MONITOR_REQUESTS)
            goes_on = answer_request(m);
        else if (n == 1)
            monitor_continue_dial(m, ev.data.u64);
        else
            goes_on = n == 0 || errno == EINTR;
    }
    monitor_end_dials(m);
}
