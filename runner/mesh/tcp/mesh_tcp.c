#include "runner/mesh/tcp/mesh_tcp.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "runner/base/affinity.h"
#include "runner/mesh/tcp/tcp.h"
#include "shared/base/clock.h"

enum {
    UNPROVEN_MAX = 64,      /* accepted connections that have not proved the key */
    SEND_AT_ONCE = 1 << 18, /* bytes for one peer per turn */
    MAINTAIN_MS = 10,       /* longest sleep while a connection is broken */
    STAGED_AT_ONCE = 16     /* messages before sockets, hence other peers, are polled */
};

static const double BYE_REPORT_S = 3; /* unacknowledged BYEs are logged after this time */

/* mesh_poll spins for this time before it sleeps. Waking a sleeping process takes about 50 us on a virtual
 * machine, longer than a small message, and a peer is silent for about 150 us while it receives, checks and
 * adds a chunk of 256 KiB. sched_yield in the loop makes spinning pay also with a few nodes a processor: a
 * sleeping node lets its processor go idle, too. */
static const double SPIN_S = 250e-6;

/* Bytes that arrived by the deadline are still processed after it, for at most this time, so that a peer that
 * sends without pause cannot hold up a poll. */
static const double OVERTIME_S = 2e-3;

static struct tcp_peer *peer_find(const struct tcp *t, int node)
{
    int i = tcp_peer_index(&t->cfg, node);

    return i < 0 ? NULL : &t->peers[i];
}

/* Whether to send a descriptor: the peer reads this node's send pool, does not hang (few descriptors are
 * unacknowledged), and the message is long enough to be faster than over the connection. */
static bool goes_by_descriptor(const struct tcp *t, const struct tcp_peer *p, const struct mesh_buf *b)
{
    return t->send_pool && p->mine.start && p->n_descriptors < SEND_POOL_DESCRIPTORS_MAX && b &&
           b->len >= SEND_POOL_MIN_BYTES;
}

static int tcp_send(struct mesh *m, const struct mesh_head *h, const void *bytes, size_t len,
                    struct mesh_buf *b, struct err *e)
{
    struct tcp *t = (struct tcp *)m;
    struct tcp_peer *p = peer_find(t, h->peer);
    struct mesh_buf *slot = NULL;

    if (!p)
        return err_set(e, ERR_CODEC, "node %d has no connection to node %d", t->cfg.spec.node, h->peer);
    if (p->state == PEER_GONE || p->has_left)
        return 0;
    if (p->n_unsent >= MESH_QUEUE_MAX)
        return err_set(e, ERR_REFUSED, "%d messages are queued for node %d, which does not receive them",
                       MESH_QUEUE_MAX, p->node);
    if (goes_by_descriptor(t, p, b))
        slot = send_pool_copy(t->send_pool, b);
    tcp_peer_enqueue(t, p,
                     &(struct tcp_message){.head = *h,
                                           .bytes = slot ? slot->bytes : bytes,
                                           .len = len,
                                           .buf = slot ? slot : b,
                                           .is_descriptor = slot});
    mesh_buf_put(slot);
    return 0;
}

static size_t tcp_queued(const struct mesh *m)
{
    const struct tcp *t = (const struct tcp *)m;
    size_t most = 0;

    for (size_t i = 0; i < t->n_peers; i++)
        if (t->peers[i].n_unsent > most)
            most = t->peers[i].n_unsent;
    return most;
}

static size_t tcp_queued_for(const struct mesh *m, int node)
{
    const struct tcp_peer *p = peer_find((const struct tcp *)m, node);

    return p ? p->n_unsent : 0;
}

/* Handles epoll events of this peer's socket. True: *out is a complete message. */
static bool serve(struct tcp *t, struct tcp_peer *p, uint32_t events, struct mesh_event *out)
{
    if (events & EPOLLOUT)
        tcp_peer_flush(t, p, SEND_AT_ONCE);
    if (p->fd < 0)
        return false;
    if (!p->is_paused)
        return events & (EPOLLIN | EPOLLHUP | EPOLLERR) && tcp_peer_receive(t, p, out);
    /* epoll reports these even when paused. No normal end: after its BYE a peer closes only once it is
     * acknowledged. */
    if (events & (EPOLLHUP | EPOLLERR))
        tcp_peer_break(t, p, TCP_TIMEOUT_S, "ended the connection");
    return false;
}

/* Returns a message that was read together with an earlier one, which epoll does not report. Round robin. */
static bool serve_staged(struct tcp *t, struct mesh_event *out)
{
    for (size_t k = 0; k < t->n_peers; k++) {
        size_t i = (t->turn + k) % t->n_peers;

        if (tcp_peer_has_staged(&t->peers[i]) && tcp_peer_receive(t, &t->peers[i], out)) {
            t->turn = i + 1;
            t->n_staged++;
            return true;
        }
    }
    return false;
}

/* Handles one epoll event. 1: mesh_poll returns; 0: it continues. */
static int serve_event(struct tcp *t, const struct epoll_event *ev, struct mesh_event *out, struct err *e)
{
    if (ev->data.ptr == t) /* the caller's descriptor */
        return 1;
    if (!ev->data.ptr)
        return tcp_links_serve(t, e) < 0 ? e->code : 0;
    return serve(t, ev->data.ptr, ev->events, out);
}

/* Timeout for epoll_wait when mesh_poll neither spins nor is past its deadline. */
static int sleep_ms(const struct tcp *t, double left)
{
    int longest = t->n_awaited > 0 ? MAINTAIN_MS : 1000;

    return left > (double)longest / 1e3 ? longest : (int)(left * 1e3) + 1;
}

static int tcp_poll(struct mesh *m, struct mesh_event *out, double deadline, struct err *e)
{
    struct tcp *t = (struct tcp *)m;
    size_t backlog = tcp_queued(m);
    double now = clock_now();
    const double sleep_at = now + t->spin_s;
    const double latest = (deadline > now ? deadline : now) + OVERTIME_S;

    *out = (struct mesh_event){.kind = MESH_NOTHING};
    for (;; now = clock_now()) {
        double left = deadline - now;
        bool is_sockets_turn = t->n_staged >= STAGED_AT_ONCE;
        bool spins = left > 0 && now < sleep_at;
        struct epoll_event ev;
        int n;

        if (tcp_links_maintain(t, now, e) < 0)
            return e->code;
        if (t->n_ended == 0 && !is_sockets_turn && serve_staged(t, out))
            return 0;
        if (t->n_ended > 0) {
            *out = t->ended[--t->n_ended];
            return 0;
        }
        if (tcp_queued(m) < backlog)
            return 0; /* callers blocked by a full queue can continue */
        /* One event at a time: the kernel keeps the others and returns descriptors in turn. */
        n = epoll_wait(t->epoll, &ev, 1, left <= 0 || spins || is_sockets_turn ? 0 : sleep_ms(t, left));
        t->n_staged = 0;
        if (n < 0)
            return errno == EINTR ? 0 : err_errno(e, ERR_IO, "epoll_wait");
        if (n > 0) {
            int rc = serve_event(t, &ev, out, e);

            if (rc != 0 || now > latest)
                return rc < 0 ? rc : 0;
        } else if (!is_sockets_turn) {
            if (left <= 0)
                return 0;
            if (spins)
                sched_yield();
        }
    }
}

static bool tcp_is_local(const struct mesh *m, int node)
{
    const struct tcp *t = (const struct tcp *)m;
    const struct tcp_peer *p = peer_find(t, node);

    return p && p->is_local;
}

static int tcp_watch(struct mesh *m, int fd, struct err *e)
{
    struct tcp *t = (struct tcp *)m;
    struct epoll_event ev = {.events = EPOLLIN, .data.ptr = t};

    if (t->watched_fd >= 0)
        epoll_ctl(t->epoll, EPOLL_CTL_DEL, t->watched_fd, NULL);
    t->watched_fd = fd;
    if (fd < 0)
        return 0;
    return epoll_ctl(t->epoll, EPOLL_CTL_ADD, fd, &ev) < 0 ? err_call(e, ERR_IO, CALL_EPOLL_CTL, "epoll_ctl")
                                                           : 0;
}

static int tcp_descriptor(const struct mesh *m)
{
    return ((const struct tcp *)m)->epoll;
}

static void tcp_pause(struct mesh *m, int node, bool on)
{
    struct tcp *t = (struct tcp *)m;
    struct tcp_peer *p = peer_find(t, node);

    if (p)
        tcp_peer_watch(t, p, p->is_writing, on);
}

static void tcp_drop(struct mesh *m, int node, const char *why)
{
    struct tcp *t = (struct tcp *)m;
    struct tcp_peer *p = peer_find(t, node);

    if (p && p->state != PEER_GONE)
        tcp_peer_drop(t, p, why);
}

static bool any_link(const struct tcp *t)
{
    for (size_t i = 0; i < t->n_peers; i++)
        if (t->peers[i].state != PEER_GONE)
            return true;
    return false;
}

static void report_unacked_byes(const struct tcp *t, double deadline)
{
    for (size_t i = 0; i < t->n_peers; i++)
        if (t->peers[i].state != PEER_GONE)
            fprintf(stderr, "node %d has not acknowledged the BYE; waiting for it another %.0f s at most\n",
                    t->peers[i].node, deadline - clock_now());
}

static void tcp_free(struct tcp *t)
{
    for (size_t i = 0; i < t->n_peers; i++)
        if (t->peers[i].state != PEER_GONE)
            tcp_peer_drop(t, &t->peers[i], "");
    for (size_t i = 0; i < t->n_links; i++)
        tcp_link_hang_up(&t->links[i]);
    mesh_pool_clear(&t->pool);
    if (t->epoll >= 0)
        close(t->epoll);
    if (t->links_epoll >= 0)
        close(t->links_epoll);
    close(t->cfg.address.listen_fd);
    explicit_bzero((void *)t->cfg.address.peers,
                   t->cfg.address.n_peers * sizeof *t->cfg.address.peers); /* keys */
    free((void *)t->cfg.address.peers);
    free(t->peers);
    free(t->received);
    free(t->ended);
    free(t->links);
    free(t);
}

/* Closing a socket with unread bytes resets the connection, and the reset can discard bytes still in flight
 * to the peer. So after its BYE this end keeps reading, and sends nothing, until the peer acknowledges it
 * or sends its own BYE: then no needed message is in flight in either direction. A connection that ends
 * before is broken and reestablished as usual. */
static void tcp_close(struct mesh *m, double deadline)
{
    struct tcp *t = (struct tcp *)m;
    double report_at = clock_now() + BYE_REPORT_S;
    struct mesh_event ev;
    struct err e = {0};

    t->is_closing = true;
    mesh_watch(m, -1, &e);
    for (size_t i = 0; i < t->n_peers; i++) {
        struct tcp_peer *p = &t->peers[i];

        tcp_pause(m, p->node, false);
        if (!p->buf)
            p->into = NULL; /* a chunk's sink may be freed */
        if (p->state != PEER_GONE && !p->has_left)
            tcp_peer_enqueue(t, p, &(struct tcp_message){.head.kind = FRAME_BYE});
    }
    while (any_link(t)) {
        deadline = mesh_closes_until(&t->cfg.spec, deadline);
        if (clock_now() >= deadline || tcp_poll(m, &ev, report_at < deadline ? report_at : deadline, &e) < 0)
            break;
        mesh_buf_put(ev.buf);
        if (clock_now() >= report_at && any_link(t)) {
            report_unacked_byes(t, deadline);
            report_at = deadline;
        }
    }
    tcp_free(t);
}

static const struct mesh_ops ops = {tcp_send,  tcp_poll,     tcp_queued, tcp_queued_for, tcp_pause, tcp_drop,
                                    tcp_close, tcp_is_local, tcp_watch,  tcp_descriptor, NULL,      NULL};

static struct tcp *tcp_new(const struct mesh_spec *spec)
{
    const struct mesh_tcp_address *address = spec->address;
    size_t n = address->n_peers;
    struct tcp *t = calloc(1, sizeof *t);
    struct mesh_peer *peers = malloc((n + 1) * sizeof *peers);

    if (!t || !peers) {
        free(t);
        free(peers);
        close(address->listen_fd);
        return NULL;
    }
    memcpy(peers, address->peers, n * sizeof *peers);
    t->mesh = (struct mesh){.ops = &ops, .pool = &t->pool};
    t->pool.limit = spec->limit;
    t->cfg = (struct tcp_config){.spec = *spec, .address = *address};
    t->cfg.address.peers = peers;
    t->watched_fd = -1;
    t->job = frame_job(address->job);
    t->epoll = t->links_epoll = -1;
    t->peers = calloc(n + 1, sizeof *t->peers);
    t->received = calloc(n + 1, sizeof *t->received);
    t->ended = calloc(n + 1, sizeof *t->ended);
    t->links = calloc(2 * n + UNPROVEN_MAX, sizeof *t->links);
    if (!t->peers || !t->received || !t->ended || !t->links) {
        tcp_free(t);
        return NULL;
    }
    t->n_peers = t->n_awaited = n;
    t->n_links = 2 * n + UNPROVEN_MAX; /* all peers may connect at once */
    for (size_t i = 0; i < t->n_links; i++)
        t->links[i].fd = -1;
    for (size_t i = 0; i < n; i++) {
        t->peers[i].node = peers[i].node;
        t->peers[i].fd = -1;
    }
    return t;
}

/* Seconds for which mesh_poll spins, once it is known which peers are on this machine. */
static double spin_seconds(const struct tcp *t)
{
    int n_beside = 0;

    for (size_t i = 0; i < t->n_peers; i++)
        n_beside += t->peers[i].is_local;
    if (n_beside < t->cfg.address.n_beside)
        n_beside = t->cfg.address.n_beside;
    return affinity_crowding_alike(1 + n_beside) == AFFINITY_CROWDED ? 0 : SPIN_S;
}

static int tcp_open(struct mesh **out, const struct mesh_spec *spec, struct err *e)
{
    size_t n_peers = ((const struct mesh_tcp_address *)spec->address)->n_peers;
    struct tcp *t = tcp_new(spec);

    if (!t)
        return err_set(e, ERR_NOMEM, "no memory for %zu connections", n_peers);
    t->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (t->epoll >= 0)
        t->links_epoll = epoll_create1(EPOLL_CLOEXEC);
    if (t->links_epoll < 0)
        errno == EMFILE ? tcp_lacks_descriptors(e) : err_errno(e, ERR_IO, "no epoll");
    if (t->links_epoll < 0 || tcp_links_open(t, e) < 0) {
        tcp_free(t);
        return e->code;
    }
    t->spin_s = spin_seconds(t);
    *out = &t->mesh;
    return 0;
}

const struct mesh_transport mesh_tcp = {
    .traits = &transport_traits[TRANSPORT_TCP], .shares_messages = true, .open = tcp_open};

void mesh_tcp_attach(struct mesh *m, int node, struct sealed theirs)
{
    struct tcp_peer *p = peer_find((struct tcp *)m, node);

    if (p)
        p->theirs = theirs;
}

void mesh_tcp_expose(struct mesh *m, int node, struct sealed mine)
{
    struct tcp_peer *p = peer_find((struct tcp *)m, node);

    if (p)
        p->mine = mine;
}

void mesh_tcp_use_pool(struct mesh *m, struct send_pool *s)
{
    ((struct tcp *)m)->send_pool = s;
}
