#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "agent/runner/tcp.h"
#include "shared/clock.h"

enum {
    SUSPECT_S = 3, /* a machine that answers nothing for so long is dialled anew */
    CARE_EVERY_S = 1,
    DIAL_S = 1, /* an attempt to reach a machine that may be back any moment */
};

static const double REDIAL_EVERY_S = 0.01; /* how often an awaited peer is looked after */
static const double PAUSE_MAX_S = 1;
static const double REFUSED_S = 0.4; /* nobody listening for so long: the process is gone */

/* In the order 0, 1, ..., -2, -3, ... */
static bool comes_earlier(int a, int b)
{
    return (a >= 0) == (b >= 0) ? (a >= 0 ? a < b : a > b) : a >= 0;
}

static int watch(const struct tcp *t, struct tcp_link *l, int op, uint32_t events, struct err *e)
{
    struct epoll_event ev = {.events = events, .data.ptr = l};

    return epoll_ctl(t->links_epoll, op, l->fd, &ev) < 0 ? err_errno(e, ERR_IO, "epoll_ctl") : 0;
}

/* The peer could not be reached; while opening that is the end, later it is tried again. */
static int failed(struct tcp *t, size_t i, const struct err *why, struct err *e)
{
    struct tcp_peer *p = &t->peers[i];
    double now = clock_now();

    tcp_link_hang_up(&t->links[i]);
    if (!t->is_open) {
        *e = *why;
        return e->code;
    }
    if (p->state != PEER_AWAITED)
        return 0;
    if (t->links[i].was_refused && now - p->broken_at > REFUSED_S)
        tcp_peer_drop(t, p, "the connection ended: the process is gone");
    p->redial_at = now + p->pause;
    p->pause = 2 * p->pause < PAUSE_MAX_S ? 2 * p->pause : PAUSE_MAX_S;
    return 0;
}

/* The later node of a pair dials. The earlier one, once the connection has broken, only looks whether the
 * other still listens: that is how it learns early that nobody will come. */
static int dial(struct tcp *t, size_t i, struct err *e)
{
    struct tcp_link *l = &t->links[i];
    bool is_mine = comes_earlier(l->node, t->cfg.node);
    struct err why = {0};

    l->heard = t->heard;
    l->deadline = t->is_open ? clock_now() + DIAL_S : t->cfg.deadline;
    if (tcp_link_connect(l, &t->cfg, is_mine ? LINK_CONNECTING : LINK_PROBING, &why) < 0 ||
        watch(t, l, EPOLL_CTL_ADD, EPOLLOUT, &why) < 0)
        return failed(t, i, &why, e);
    return 0;
}

/* With all places taken the oldest stranger goes: a peer needs its place for a moment only, a scanner holds
 * on. */
static void accept_stranger(struct tcp *t)
{
    int fd = accept4(t->cfg.listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    struct tcp_link *place = &t->links[t->n_peers];
    struct err e = {0};

    if (fd < 0)
        return;
    for (size_t i = t->n_peers; i < t->n_links && place->fd >= 0; i++)
        if (t->links[i].fd < 0 || t->links[i].deadline < place->deadline)
            place = &t->links[i];
    tcp_link_hang_up(place);
    tcp_link_accepted(place, &t->cfg, t->heard, fd);
    if (watch(t, place, EPOLL_CTL_ADD, EPOLLIN, &e) < 0)
        tcp_link_hang_up(place);
}

/* One link's socket is ready. A stranger that does not know the handshake is dropped and forgotten. */
static int advance(struct tcp *t, struct tcp_link *l, struct err *e)
{
    size_t place = (size_t)(l - t->links);
    enum link_state before = l->state;
    struct err why = {0};
    size_t i;

    if (tcp_link_advance(l, &t->cfg, &why) < 0 ||
        (before == LINK_CONNECTING && watch(t, l, EPOLL_CTL_MOD, EPOLLIN, &why) < 0)) {
        if (place < t->n_peers)
            return failed(t, place, &why, e);
        tcp_link_hang_up(l);
        return 0;
    }
    if (l->state != LINK_OPEN)
        return 0;
    if (before == LINK_PROBING)
        return failed(t, place, &why, e); /* it listens: then it will dial */
    epoll_ctl(t->links_epoll, EPOLL_CTL_DEL, l->fd, NULL);
    i = (size_t)tcp_peer_index(&t->cfg, l->node);
    tcp_peer_adopt(t, &t->peers[i], l->fd, l->tls, tcp_link_ack(l));
    l->fd = -1;
    l->tls = NULL;
    return 0;
}

int tcp_links_serve(struct tcp *t, struct err *e)
{
    struct epoll_event ev;
    int n = epoll_wait(t->links_epoll, &ev, 1, 0);
    struct tcp_link *l = ev.data.ptr;

    if (n <= 0)
        return 0;
    if (!l)
        accept_stranger(t);
    else if (l->fd >= 0)
        return advance(t, l, e);
    return 0;
}

static int care_for_links(struct tcp *t, double now, struct err *e)
{
    for (size_t i = 0; i < t->n_links; i++) {
        struct tcp_link *l = &t->links[i];
        struct err why = {0};

        if (l->fd < 0 || now <= l->deadline)
            continue;
        err_set(&why, ERR_TIMEOUT, "node %d did not finish the handshake in time", l->node);
        if (i < t->n_peers && failed(t, i, &why, e) < 0)
            return e->code;
        tcp_link_hang_up(l);
    }
    return 0;
}

/* Its machine answers, but nobody takes what is sent there: the process hangs, or is stopped. */
static bool is_stuck(const struct tcp *t, struct tcp_peer *p, double watched)
{
    p->stuck_s = p->has_moved || p->n_unsent == 0 ? 0 : p->stuck_s + watched;
    p->has_moved = false;
    return t->mesh.ends_stuck && p->stuck_s > TCP_PATIENCE_S;
}

/* `watched` seconds have passed since the last time, without those in which this node did not look: it may
 * have computed for long, and what its peers did meanwhile it has yet to see. */
static int care_for_peer(struct tcp *t, size_t i, double now, double watched, struct err *e)
{
    struct tcp_peer *p = &t->peers[i];
    char why[MESH_WHY + 64];

    p->lost_at += p->state == PEER_AWAITED ? now - t->cared_at - watched : 0;
    if (p->state == PEER_LINKED && is_stuck(t, p, watched)) {
        snprintf(why, sizeof why, "it has taken nothing for %g s, although messages wait for it",
                 TCP_PATIENCE_S);
        tcp_peer_drop(t, p, why);
    } else if (p->state == PEER_LINKED) {
        double silence = tcp_link_silence(p->fd), most = SUSPECT_S + watched;

        snprintf(why, sizeof why, "has not answered for %d s", SUSPECT_S);
        if (silence > SUSPECT_S)
            tcp_peer_break(t, p, TCP_PATIENCE_S - (silence < most ? silence : most), why);
    } else if (p->state == PEER_AWAITED && now > p->lost_at) {
        snprintf(why, sizeof why, "it %s, and could not be reached again for %g s", p->why, TCP_PATIENCE_S);
        tcp_peer_drop(t, p, why);
    } else if (p->state == PEER_AWAITED && now >= p->redial_at && t->links[i].fd < 0) {
        return dial(t, i, e);
    }
    return 0;
}

int tcp_links_care(struct tcp *t, double now, struct err *e)
{
    double since = now - t->cared_at, watched = since < SUSPECT_S ? since : SUSPECT_S;

    if (now < t->care_at)
        return 0;
    if (care_for_links(t, now, e) < 0)
        return e->code;
    for (size_t i = 0; t->is_open && i < t->n_peers; i++)
        if (care_for_peer(t, i, now, watched, e) < 0)
            return e->code;
    t->cared_at = now;
    t->care_at = now + (t->n_awaited > 0 ? REDIAL_EVERY_S : CARE_EVERY_S);
    return 0;
}

int tcp_links_open(struct tcp *t, struct err *e)
{
    const struct mesh_tcp_config *cfg = &t->cfg;
    struct epoll_event listener = {.events = EPOLLIN}, links = {.events = EPOLLIN};

    if (epoll_ctl(t->links_epoll, EPOLL_CTL_ADD, cfg->listen_fd, &listener) < 0 ||
        epoll_ctl(t->epoll, EPOLL_CTL_ADD, t->links_epoll, &links) < 0)
        return err_errno(e, ERR_IO, "epoll_ctl");
    for (size_t i = 0; i < t->n_peers; i++)
        if (tcp_link_resolve(&t->links[i], &cfg->peers[i], e) < 0 ||
            (comes_earlier(cfg->peers[i].node, cfg->node) && dial(t, i, e) < 0))
            return e->code;
    while (t->n_awaited > 0) {
        struct epoll_event ev;

        if (*cfg->interrupted)
            return err_set(e, ERR_CANCELLED, "asked to stop while nodes were connecting");
        if (clock_now() > cfg->deadline)
            break;
        if (tcp_links_care(t, clock_now(), e) < 0)
            return e->code;
        if (epoll_wait(t->links_epoll, &ev, 1, 500) < 0 && errno != EINTR)
            return err_errno(e, ERR_IO, "epoll_wait");
        if (tcp_links_serve(t, e) < 0)
            return e->code;
    }
    for (size_t i = 0; i < t->n_peers; i++)
        if (t->peers[i].state == PEER_AWAITED)
            return err_set(e, ERR_TIMEOUT, "node %d did not connect in time", t->peers[i].node);
    t->is_open = true;
    return 0;
}
