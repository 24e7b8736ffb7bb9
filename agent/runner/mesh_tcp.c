#include "agent/runner/mesh_tcp.h"

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "agent/runner/tcp_link.h"
#include "shared/clock.h"
#include "shared/crc32c.h"

enum {
    LISTEN_EVERY_S = 1,
    STRANGERS_MAX = 64,    /* accepted connections that have not shown the key */
    SEND_AT_ONCE = 1 << 18 /* bytes per call, so that a long message does not keep the other links waiting */
};

struct letter {
    uint8_t header[FRAME_BYTES];
    const unsigned char *bytes; /* (len) */
    size_t len;
    struct mesh_buf *buf; /* whose they are; NULL: the caller's, or none */
};

struct peer {
    int node;
    int fd; /* -1: gone */
    bool has_left, is_writing, is_paused;
    struct letter queue[MESH_QUEUE_MAX]; /* ring */
    size_t first, n_queued, sent;        /* `sent` bytes of the first letter are out */
    uint8_t header[FRAME_BYTES];
    size_t n_header;
    struct frame frame;  /* once the header is in */
    bool is_placed;      /* it is known where the payload goes */
    unsigned char *into; /* NULL: nowhere */
    size_t n_payload;
    struct mesh_buf *buf; /* NULL: a piece's */
};

struct tcp {
    struct mesh mesh;
    uint64_t job;
    uint32_t attempt;
    int node, epoll;
    size_t n_peers;
    struct peer *peers;
    size_t n_news; /* peers whose end is to be told */
    struct mesh_event *news;
    double listened_at; /* clock_now when silence was last looked for */
    bool is_closing;
    const volatile int *interrupted;
};

static struct peer *peer_find(const struct tcp *t, int node)
{
    for (size_t i = 0; i < t->n_peers; i++)
        if (t->peers[i].node == node)
            return &t->peers[i];
    return NULL;
}

/* The peer's part is over; the next poll tells why. */
static void drop(struct tcp *t, struct peer *p, const char *why)
{
    struct mesh_event *news = &t->news[t->n_news++];

    close(p->fd);
    p->fd = -1;
    mesh_buf_put(&t->mesh, p->buf);
    p->buf = NULL;
    for (; p->n_queued > 0; p->n_queued--) {
        mesh_buf_put(&t->mesh, p->queue[p->first].buf);
        p->first = (p->first + 1) % MESH_QUEUE_MAX;
    }
    *news = (struct mesh_event){.kind = p->has_left ? MESH_LEFT : MESH_LOST, .head.peer = p->node};
    if (!p->has_left)
        snprintf(news->why, sizeof news->why, "%s", why);
}

static void watch(struct tcp *t, struct peer *p, bool writing, bool paused)
{
    struct epoll_event ev = {.events = (paused ? 0 : EPOLLIN) | (writing ? EPOLLOUT : 0), .data.ptr = p};

    if (p->fd < 0 || (writing == p->is_writing && paused == p->is_paused))
        return;
    epoll_ctl(t->epoll, EPOLL_CTL_MOD, p->fd, &ev);
    p->is_writing = writing;
    p->is_paused = paused;
}

/* Sends until the queue is empty or the kernel takes no more. */
static void flush(struct tcp *t, struct peer *p)
{
    while (p->fd >= 0 && p->n_queued > 0) {
        struct letter *l = &p->queue[p->first];
        size_t len = l->len;
        size_t header_sent = p->sent < FRAME_BYTES ? p->sent : FRAME_BYTES;
        size_t at = p->sent - header_sent;
        size_t chunk = len - at < SEND_AT_ONCE ? len - at : SEND_AT_ONCE;
        struct iovec v[2] = {{l->header + header_sent, FRAME_BYTES - header_sent},
                             {(void *)(l->bytes + at), chunk}};
        struct msghdr msg = {.msg_iov = v, .msg_iovlen = 2};
        ssize_t n = sendmsg(p->fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN) {
            watch(t, p, true, p->is_paused);
            return;
        }
        if (n < 0) {
            drop(t, p, strerror(errno));
            return;
        }
        p->sent += (size_t)n;
        if (p->sent == FRAME_BYTES + len) {
            mesh_buf_put(&t->mesh, l->buf);
            p->first = (p->first + 1) % MESH_QUEUE_MAX;
            p->n_queued--;
            p->sent = 0;
        }
    }
    watch(t, p, false, p->is_paused);
}

static int enqueue(struct tcp *t, struct peer *p, const struct frame *f, const void *bytes,
                   struct mesh_buf *b, struct err *e)
{
    struct letter *l = &p->queue[(p->first + p->n_queued) % MESH_QUEUE_MAX];

    if (p->n_queued == MESH_QUEUE_MAX)
        return err_set(e, ERR_REFUSED, "%d messages wait for node %d, which does not take them",
                       MESH_QUEUE_MAX, p->node);
    frame_pack(l->header, f);
    l->bytes = bytes;
    l->len = f->len;
    l->buf = b;
    if (b)
        b->refs++;
    p->n_queued++;
    if (p->n_queued == 1)
        flush(t, p);
    return 0;
}

static int tcp_send(struct mesh *m, const struct mesh_head *h, const void *bytes, size_t len,
                    struct mesh_buf *b, struct err *e)
{
    struct tcp *t = (struct tcp *)m;
    struct peer *p = peer_find(t, h->peer);
    struct frame f = {.kind = h->kind,
                      .job = t->job,
                      .attempt = t->attempt,
                      .from = t->node,
                      .to = h->peer,
                      .channel = h->channel,
                      .word = h->word,
                      .round = h->round,
                      .len = len};

    if (!p)
        return err_set(e, ERR_CODEC, "no link from node %d to node %d", t->node, h->peer);
    if (p->fd < 0 || p->has_left)
        return 0;
    f.crc = crc32c(bytes, len);
    return enqueue(t, p, &f, bytes, b, e);
}

static struct mesh_head head_of(const struct peer *p)
{
    return (struct mesh_head){.kind = p->frame.kind,
                              .peer = p->node,
                              .channel = p->frame.channel,
                              .word = p->frame.word,
                              .round = p->frame.round};
}

/* The frame's header is in: is it one this peer may send? */
static int check_frame(const struct tcp *t, struct peer *p, struct err *e)
{
    if (frame_unpack(&p->frame, p->header, e) < 0)
        return e->code;
    if (p->frame.job != t->job || p->frame.attempt != t->attempt || p->frame.from != p->node ||
        p->frame.to != t->node)
        return err_set(e, ERR_PROTOCOL, "it sent a frame of another job, attempt or node");
    if (p->frame.kind < FRAME_WORD)
        return err_set(e, ERR_PROTOCOL, "it sent a handshake in the middle");
    if (p->frame.kind != FRAME_PIECE && p->frame.len > (p->frame.kind == FRAME_BYE ? 0 : t->mesh.limit))
        return err_set(e, ERR_PROTOCOL, "it announced %llu bytes where at most %zu are right",
                       (unsigned long long)p->frame.len, t->mesh.limit);
    p->n_payload = 0;
    return 0;
}

/* Where the payload goes. The peer is paused when a piece has no place yet. */
static int place(struct tcp *t, struct peer *p, struct err *e)
{
    const struct mesh_head head = head_of(p);
    enum mesh_where where = MESH_HERE;
    void *at = NULL;

    p->is_placed = true;
    p->into = NULL;
    if (p->frame.kind == FRAME_BYE || t->is_closing)
        return 0;
    if (p->frame.kind != FRAME_PIECE) {
        p->buf = mesh_buf_take(&t->mesh);
        if (!p->buf)
            return err_set(e, ERR_NOMEM, "no memory for its message");
        p->buf->len = p->frame.len;
        p->into = p->buf->bytes;
        return 0;
    }
    where = t->mesh.place ? t->mesh.place(t->mesh.owner, &head, p->frame.len, &at) : MESH_WRONG;
    if (where == MESH_WRONG)
        return err_set(e, ERR_PROTOCOL, "it sent a piece that nobody expects");
    p->into = at;
    p->is_placed = where == MESH_HERE;
    if (!p->is_placed)
        watch(t, p, p->is_writing, true);
    return 0;
}

/* Reads towards `want` bytes, of which `*have` are in; a NULL `into` forgets them. False: they are not all
 * there yet, or the peer is gone. */
static bool fill(struct tcp *t, struct peer *p, unsigned char *into, size_t *have, size_t want)
{
    while (*have < want) {
        unsigned char nowhere[1 << 14];
        size_t left = want - *have;
        ssize_t n = into ? recv(p->fd, into + *have, left, MSG_DONTWAIT)
                         : recv(p->fd, nowhere, left < sizeof nowhere ? left : sizeof nowhere, MSG_DONTWAIT);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return false;
        if (n <= 0) {
            drop(t, p, n == 0 ? "the connection ended: the process is gone" : strerror(errno));
            return false;
        }
        *have += (size_t)n;
    }
    return true;
}

/* Reads until one message is complete (true) or nothing more is there. */
static bool receive(struct tcp *t, struct peer *p, struct mesh_event *out)
{
    struct err e = {0};

    for (;;) {
        if (p->n_header < FRAME_BYTES) {
            if (!fill(t, p, p->header, &p->n_header, FRAME_BYTES))
                return false;
            if (check_frame(t, p, &e) < 0)
                break;
        }
        if (!p->is_placed && place(t, p, &e) < 0)
            break;
        if (!p->is_placed || !fill(t, p, p->into, &p->n_payload, p->frame.len))
            return false;
        if (p->frame.kind == FRAME_BYE) {
            p->has_left = true;
            break;
        }
        if (!t->is_closing && crc32c(p->into, p->n_payload) != p->frame.crc) {
            err_set(&e, ERR_PROTOCOL, "a message does not match its checksum");
            break;
        }
        p->n_header = 0;
        p->is_placed = false;
        if (t->is_closing) {
            mesh_buf_put(&t->mesh, p->buf);
            p->buf = NULL;
            continue; /* nobody hears it any more */
        }
        *out = (struct mesh_event){.kind = MESH_MESSAGE, .head = head_of(p), .buf = p->buf};
        p->buf = NULL;
        return true;
    }
    drop(t, p, e.text);
    return false;
}

/* A piece that waits for its place may have all its bytes here already, of which epoll would not speak. */
static bool serve_waiting(struct tcp *t, struct mesh_event *out)
{
    for (size_t i = 0; i < t->n_peers; i++) {
        struct peer *p = &t->peers[i];

        if (p->fd >= 0 && !p->is_paused && p->n_header == FRAME_BYTES && !p->is_placed && receive(t, p, out))
            return true;
    }
    return false;
}

static size_t tcp_queued(const struct mesh *m)
{
    const struct tcp *t = (const struct tcp *)m;
    size_t most = 0;

    for (size_t i = 0; i < t->n_peers; i++)
        if (t->peers[i].n_queued > most)
            most = t->peers[i].n_queued;
    return most;
}

static void drop_silent(struct tcp *t)
{
    double now = clock_now();

    if (now - t->listened_at < LISTEN_EVERY_S)
        return;
    t->listened_at = now;
    for (size_t i = 0; i < t->n_peers; i++)
        if (t->peers[i].fd >= 0 && tcp_link_is_silent(t->peers[i].fd))
            drop(t, &t->peers[i], "Connection timed out");
}

/* Something can be done about this peer's socket; true: a message is complete. */
static bool serve(struct tcp *t, struct peer *p, uint32_t events, struct mesh_event *out)
{
    if (events & EPOLLOUT)
        flush(t, p);
    if (p->fd < 0)
        return false;
    if (!p->is_paused)
        return events & (EPOLLIN | EPOLLHUP | EPOLLERR) && receive(t, p, out);
    /* Reported though nobody asks: a peer that says good-bye does not close before it is heard. */
    if (events & (EPOLLHUP | EPOLLERR))
        drop(t, p, "the connection ended: the process is gone");
    return false;
}

static int tcp_poll(struct mesh *m, struct mesh_event *out, double deadline, struct err *e)
{
    struct tcp *t = (struct tcp *)m;
    size_t backlog = tcp_queued(m);

    *out = (struct mesh_event){.kind = MESH_NOTHING};
    for (;;) {
        double left = deadline - clock_now();
        struct epoll_event ev;
        int n;

        drop_silent(t);
        if (t->n_news > 0) {
            *out = t->news[--t->n_news];
            return 0;
        }
        if (serve_waiting(t, out))
            return 0;
        if (t->n_news > 0)
            continue;
        if (tcp_queued(m) < backlog)
            return 0; /* who waits for room wants to know */
        /* One event a time: the kernel keeps the rest, and hands links out in turn. */
        n = epoll_wait(t->epoll, &ev, 1, left <= 0 ? 0 : left > 1 ? 1000 : (int)(left * 1e3) + 1);
        if (n < 0 && errno != EINTR)
            return err_errno(e, ERR_IO, "epoll_wait");
        if (n < 0 || (n == 0 && left <= 0))
            return 0;
        if (n == 0)
            continue;
        if (serve(t, ev.data.ptr, ev.events, out))
            return 0;
    }
}

static void tcp_pause(struct mesh *m, int node, bool on)
{
    struct tcp *t = (struct tcp *)m;
    struct peer *p = peer_find(t, node);

    if (p)
        watch(t, p, p->is_writing, on);
}

static bool any_link(const struct tcp *t)
{
    for (size_t i = 0; i < t->n_peers; i++)
        if (t->peers[i].fd >= 0)
            return true;
    return false;
}

static void tcp_free(struct tcp *t)
{
    for (size_t i = 0; i < t->n_peers; i++)
        if (t->peers[i].fd >= 0)
            drop(t, &t->peers[i], "");
    mesh_pool_clear(&t->mesh);
    close(t->epoll);
    free(t->peers);
    free(t->news);
    free(t);
}

/* A socket closed with unread bytes resets the connection, and the reset can overtake what is under way to
 * the peer. So after the good-bye this end reads on until each peer has closed, which it does on hearing
 * it. */
static void tcp_close(struct mesh *m, double deadline)
{
    struct tcp *t = (struct tcp *)m;
    struct mesh_event ev;
    struct err e = {0};

    t->is_closing = true;
    for (size_t i = 0; i < t->n_peers; i++) {
        tcp_pause(m, t->peers[i].node, false);
        if (!t->peers[i].buf)
            t->peers[i].into = NULL; /* a piece's place may be gone */
    }
    for (size_t i = 0; i < t->n_peers; i++)
        if (t->peers[i].fd >= 0)
            enqueue(t, &t->peers[i],
                    &(struct frame){.kind = FRAME_BYE,
                                    .job = t->job,
                                    .attempt = t->attempt,
                                    .from = t->node,
                                    .to = t->peers[i].node},
                    "", NULL, &e);
    while (any_link(t) && !*t->interrupted && clock_now() < deadline && tcp_poll(m, &ev, deadline, &e) == 0)
        mesh_buf_put(m, ev.buf);
    tcp_free(t);
}

static const struct mesh_ops ops = {tcp_send, tcp_poll, tcp_queued, tcp_pause, tcp_close};

/* Links that are being made, before there is a mesh. */
struct opening {
    const struct mesh_tcp_config *cfg;
    struct tcp *tcp;
    struct tcp_link *links; /* [0, n_peers): connecting; [n_peers, + STRANGERS_MAX): accepted; fd -1: free */
    struct pollfd *fds;     /* one a link, and the listening socket behind them */
    size_t n_links, n_open;
};

/* In the order 0, 1, ..., -2, -3, ... */
static bool comes_earlier(int a, int b)
{
    return (a >= 0) == (b >= 0) ? (a >= 0 ? a < b : a > b) : a >= 0;
}

static int finish_link(struct opening *o, struct tcp_link *l, struct err *e)
{
    struct peer *p = peer_find(o->tcp, l->node);
    struct epoll_event ev = {.events = EPOLLIN, .data.ptr = p};

    if (p->fd >= 0)
        return err_set(e, ERR_AUTH, "node %d connected twice", l->node);
    if (epoll_ctl(o->tcp->epoll, EPOLL_CTL_ADD, l->fd, &ev) < 0)
        return err_errno(e, ERR_IO, "epoll_ctl");
    p->fd = l->fd;
    l->fd = -1;
    o->n_open++;
    return 0;
}

/* With all places taken the oldest stranger goes: a peer needs its place for a moment only, a scanner holds
 * on. */
static void accept_stranger(struct opening *o)
{
    int fd = accept4(o->cfg->listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    struct tcp_link *place = &o->links[o->cfg->n_peers];

    if (fd < 0)
        return;
    for (size_t i = o->cfg->n_peers; i < o->n_links && place->fd >= 0; i++)
        if (o->links[i].fd < 0 || o->links[i].deadline < place->deadline)
            place = &o->links[i];
    if (place->fd >= 0)
        close(place->fd);
    tcp_link_accepted(place, o->cfg, fd);
}

/* One link's socket is ready. A stranger that does not know the handshake is dropped and forgotten; a peer
 * that this node connected to and that fails ends the opening. */
static int advance(struct opening *o, size_t i, struct err *e)
{
    struct tcp_link *l = &o->links[i];
    bool is_stranger = i >= o->cfg->n_peers;

    if (tcp_link_advance(l, o->cfg, e) < 0 || (l->state == LINK_OPEN && finish_link(o, l, e) < 0)) {
        close(l->fd);
        l->fd = -1;
        return is_stranger ? 0 : e->code;
    }
    return 0;
}

static int wait_for_links(struct opening *o, struct err *e)
{
    const struct mesh_tcp_config *cfg = o->cfg;

    while (o->n_open < cfg->n_peers) {
        double now = clock_now();
        int n;

        if (*cfg->interrupted)
            return err_set(e, ERR_CANCELLED, "asked to stop while nodes were connecting");
        if (now > cfg->deadline)
            break;
        for (size_t i = 0; i < o->n_links; i++) {
            struct tcp_link *l = &o->links[i];

            if (l->fd >= 0 && now > l->deadline) {
                close(l->fd);
                l->fd = -1;
                if (i < cfg->n_peers)
                    return err_set(e, ERR_TIMEOUT, "node %d did not finish the handshake in time", l->node);
            }
            o->fds[i] = (struct pollfd){.fd = l->fd,
                                        .events = l->state == LINK_CONNECTING ? POLLOUT : POLLIN};
        }
        o->fds[o->n_links] = (struct pollfd){.fd = cfg->listen_fd, .events = POLLIN};
        n = poll(o->fds, o->n_links + 1, 500);
        if (n < 0 && errno != EINTR)
            return err_errno(e, ERR_IO, "poll");
        if (n <= 0)
            continue;
        for (size_t i = 0; i < o->n_links; i++)
            if (o->fds[i].revents && o->links[i].fd >= 0 && advance(o, i, e) < 0)
                return e->code;
        if (o->fds[o->n_links].revents)
            accept_stranger(o);
    }
    for (size_t i = 0; i < o->tcp->n_peers; i++)
        if (o->tcp->peers[i].fd < 0)
            return err_set(e, ERR_TIMEOUT, "node %d did not connect in time", o->tcp->peers[i].node);
    return 0;
}

static struct tcp *tcp_new(const struct mesh_tcp_config *cfg)
{
    struct tcp *t = calloc(1, sizeof *t);

    if (!t)
        return NULL;
    t->mesh = (struct mesh){.ops = &ops, .limit = cfg->limit};
    t->job = frame_job(cfg->job);
    t->attempt = cfg->attempt;
    t->interrupted = cfg->interrupted;
    t->node = cfg->node;
    t->epoll = epoll_create1(EPOLL_CLOEXEC);
    t->n_peers = cfg->n_peers;
    t->peers = calloc(cfg->n_peers + 1, sizeof *t->peers);
    t->news = calloc(cfg->n_peers + 1, sizeof *t->news);
    if (t->epoll < 0 || !t->peers || !t->news) {
        if (t->epoll >= 0)
            close(t->epoll);
        free(t->peers);
        free(t->news);
        free(t);
        return NULL;
    }
    for (size_t i = 0; i < t->n_peers; i++) {
        t->peers[i].node = cfg->peers[i].node;
        t->peers[i].fd = -1;
    }
    return t;
}

int mesh_tcp_open(struct mesh **out, const struct mesh_tcp_config *cfg, struct err *e)
{
    struct opening o = {.cfg = cfg, .tcp = tcp_new(cfg), .n_links = cfg->n_peers + STRANGERS_MAX};
    int rc = 0;

    o.links = malloc(o.n_links * sizeof *o.links);
    o.fds = malloc((o.n_links + 1) * sizeof *o.fds);
    if (!o.tcp || !o.links || !o.fds)
        rc = err_set(e, ERR_NOMEM, "no memory for %zu links", cfg->n_peers);
    for (size_t i = 0; o.links && i < o.n_links; i++)
        o.links[i] = (struct tcp_link){.fd = -1};
    for (size_t i = 0; rc == 0 && i < cfg->n_peers; i++)
        if (comes_earlier(cfg->peers[i].node, cfg->node))
            rc = tcp_link_connect(&o.links[i], cfg, &cfg->peers[i], e);
    if (rc == 0)
        rc = wait_for_links(&o, e);
    for (size_t i = 0; o.links && i < o.n_links; i++)
        if (o.links[i].fd >= 0)
            close(o.links[i].fd);
    close(cfg->listen_fd);
    free(o.links);
    free(o.fds);
    if (rc < 0) {
        if (o.tcp)
            tcp_free(o.tcp);
        return rc;
    }
    *out = &o.tcp->mesh;
    return 0;
}
