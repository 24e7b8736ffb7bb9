/* tcp_open -- establishes and reestablishes the connections of mesh_tcp (tcp.h). */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "runner/mesh/tcp/data_key.h"
#include "runner/mesh/tcp/tcp.h"
#include "shared/base/clock.h"
#include "shared/base/crypto.h"

enum {
    OPENING_MS = 100,      /* most time between two checks for peers to reconnect to */
    OPENING_AT_ONCE = 256, /* events between them: a check reads the state of every peer and link */
    LINKS_CHECKED = 128,   /* links for which a check every REDIAL_EVERY_S costs little */
};

static const double SUSPECT_S = 3; /* silence of a machine after which its connection is replaced */
static const double MAINTAIN_EVERY_S = 1;
static const double DIAL_MOST_S =
    1; /* longest connection attempt, because the machine may return at any moment */
static const double ROUND_TRIPS = 4; /* measured round trips added to DIAL_LEAST_S */
static const double REDIAL_EVERY_S =
    0.01; /* interval of tcp_links_maintain while peers are awaited, for each LINKS_CHECKED links begun */
static const double DIAL_LEAST_S = 0.2;
static const double PAUSE_MAX_S = 0.1;
static const double REFUSED_S = 0.4; /* if the port refuses connections for so long, the process has ended */

static int watch_link(const struct tcp *t, struct tcp_link *l, int op, uint32_t events, struct err *e)
{
    struct epoll_event ev = {.events = events, .data.ptr = l};

    return epoll_ctl(t->links_epoll, op, l->fd, &ev) < 0 ? err_call(e, ERR_IO, CALL_EPOLL_CTL, "epoll_ctl")
                                                         : 0;
}

/* While opening: whether a failure is permanent. Damaged bytes can look like any refusal, and a node
 * flooded by unauthenticated connections closes some at random. But all nodes listen before any connects,
 * so a refused connection is permanent, and so is the same refusal twice. */
static bool is_final(const struct tcp *t, size_t i, const struct err *why)
{
    bool is_refusal = why->code == ERR_AUTH || why->code == ERR_PROTOCOL;

    return t->links[i].connect_error == ECONNREFUSED ||
           (is_refusal && !t->is_open &&
            strncmp(why->text, t->peers[i].tries[t->links[i].place].why, MESH_REASON_MAX - 1) == 0);
}

/* Does this machine have no route to the address, as without an IPv6 network to an IPv6 address? */
static bool has_no_route(const struct tcp_try *try)
{
    return try->error == ENETUNREACH || try->error == EADDRNOTAVAIL || try->error == EAFNOSUPPORT;
}

/* Is the peer at none of its addresses? If there is a route to none of them, the network may not be up
 * yet. */
static bool are_all_out(const struct tcp *t, size_t i)
{
    const struct tcp_try *tries = t->peers[i].tries;
    uint32_t n = t->links[i].places.n, n_out = 0, n_without = 0;

    for (uint32_t k = 0; k < n; k++) {
        n_out += tries[k].is_out;
        n_without += !tries[k].is_out && has_no_route(&tries[k]);
    }
    return n_out > 0 && n_out + n_without == n;
}

/* "node 1 at localhost:9000: ::1: Connection refused; 127.0.0.1: Connection timed out" */
static void list_tries(char *out, size_t size, const struct tcp *t, size_t i)
{
    const struct tcp_link *l = &t->links[i];
    size_t at;

    snprintf(out, size, "node %d at ", t->peers[i].node);
    at = strlen(out);
    tcp_link_peer_address(out + at, size - at, &t->cfg.address.peers[i]);
    for (uint32_t k = 0; k < l->places.n; k++) {
        const struct tcp_try *try = &t->peers[i].tries[k];
        char place[ADDRESS_TEXT];

        address_text(place, &l->places.at[k].at);
        at = strlen(out);
        snprintf(out + at, size - at, "%s %s: %s", k ? ";" : ":", place,
                 try->error    ? strerror(try->error)
                 : try->why[0] ? try->why
                               : "not tried yet");
    }
}

/* Notes why connecting to the present address has failed, and goes to the next address at which the peer may
 * be; after the last one, to the first again, after a pause. */
static void note_try(struct tcp *t, size_t i, const struct err *why, double now)
{
    struct tcp_link *l = &t->links[i];
    struct tcp_peer *p = &t->peers[i];
    const uint32_t before = l->place;

    p->tries[before].is_out = is_final(t, i, why);
    p->tries[before].error = l->connect_error;
    snprintf(p->tries[before].why, sizeof p->tries[before].why, "%.*s", MESH_REASON_MAX - 1, why->text);
    do
        l->place = (l->place + 1) % l->places.n;
    while (l->place != before && p->tries[l->place].is_out);
    p->redial_at = now;
    if (l->place > before)
        return;
    p->n_turns++;
    p->redial_at += p->pause;
    p->pause = 2 * p->pause < PAUSE_MAX_S ? 2 * p->pause : PAUSE_MAX_S;
}

/* Handles a failed connection attempt: schedules the next one, unless the failure is permanent. */
static int dial_failed(struct tcp *t, size_t i, const struct err *why, struct err *e)
{
    struct tcp_peer *p = &t->peers[i];
    double now = clock_now();
    bool is_at_none;

    tcp_link_hang_up(&t->links[i]);
    if (p->state != PEER_AWAITED)
        return 0;
    p->was_seen |= t->links[i].was_seen;
    note_try(t, i, why, now);
    is_at_none = are_all_out(t, i);
    if (t->is_open && is_at_none && now - p->broken_at > REFUSED_S) {
        p->has_ended = true;
        tcp_peer_drop(t, p, "the connection ended: the process has ended");
    }
    if (t->is_open)
        return 0;
    *e = *why;
    if (t->links[i].places.n > 1)
        list_tries(e->text, sizeof e->text, t, i);
    if (is_at_none)
        return e->code;
    fprintf(stderr, "%s; retrying\n", e->text);
    e->code = 0;
    return 0;
}

static bool is_mine_to_dial(const struct tcp *t, size_t i)
{
    return node_comes_earlier(t->cfg.address.peers[i].node, t->cfg.spec.node);
}

/* Timeout of a reconnection attempt. The kernel retransmits a lost SYN after 1 s at the earliest; a new
 * attempt is faster. */
static double dial_s(const struct tcp_peer *p)
{
    double s = DIAL_LEAST_S + ROUND_TRIPS * p->round_trip;

    return s < DIAL_MOST_S ? s : DIAL_MOST_S;
}

static double dial_deadline(const struct tcp *t, size_t i)
{
    const double latest = t->cfg.spec.deadline;
    double now = clock_now();

    if (t->is_open)
        return now + dial_s(&t->peers[i]);
    if (t->links[i].places.n == 1)
        return latest;
    return fmin(latest, now + ldexp(DIAL_MOST_S, t->peers[i].n_turns));
}

/* The later node of a pair connects. The earlier one, once the connection has broken, only probes whether the
 * peer's port is open, to notice early that its process has ended. */
static int dial_peer(struct tcp *t, size_t i, struct err *e)
{
    struct tcp_link *l = &t->links[i];
    enum link_state state = is_mine_to_dial(t, i) ? LINK_CONNECTING : LINK_PROBING;
    struct err why = {0};

    l->received = t->received;
    l->deadline = dial_deadline(t, i);
    if (tcp_link_connect(l, &t->cfg, state, &why) < 0 ||
        watch_link(t, l, EPOLL_CTL_ADD, tcp_link_events(l), &why) < 0)
        return dial_failed(t, i, &why, e);
    return 0;
}

/* Returns a slot for an accepted connection. If all are taken it evicts a random one of those that have not
 * sent a HELLO, so that a flood of connections does not evict every peer before its HELLO arrives; if all
 * have, the oldest. A peer needs its slot for a moment only. */
static struct tcp_link *find_slot(struct tcp *t)
{
    struct tcp_link *const first = &t->links[t->n_peers], *const end = &t->links[t->n_links];
    struct tcp_link *oldest = first, *l;
    uint32_t n_silent = 0, dropped;

    for (l = first; l < end; l++) {
        if (l->fd < 0)
            return l;
        if (l->deadline < oldest->deadline)
            oldest = l;
        n_silent += l->state == LINK_HELLO;
    }
    if (n_silent == 0)
        return oldest;
    random_bytes(&dropped, sizeof dropped);
    dropped %= n_silent;
    for (l = first; l->state != LINK_HELLO || dropped-- > 0; l++)
        continue;
    return l;
}

/* The peer waits and connects again. That fails until a descriptor is free. */
static void log_unaccepted(struct tcp *t)
{
    struct err e;

    if (t->has_lacked_files || (errno != EMFILE && errno != ENFILE))
        return;
    t->has_lacked_files = true;
    err_errno(&e, ERR_IO, "a node's connection cannot be accepted");
    fprintf(stderr, "%s\n", e.text);
}

static void accept_unproven(struct tcp *t)
{
    struct sockaddr_storage from = {0};
    socklen_t len = sizeof from;
    int fd = accept4(t->cfg.address.listen_fd, (struct sockaddr *)&from, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);
    struct tcp_link *slot;
    struct err e = {0};

    if (fd < 0) {
        log_unaccepted(t);
        return;
    }
    slot = find_slot(t);
    tcp_link_hang_up(slot);
    tcp_link_accepted(slot, &t->cfg, t->received, fd, &from, len);
    if (watch_link(t, slot, EPOLL_CTL_ADD, EPOLLIN, &e) < 0)
        tcp_link_hang_up(slot);
}

/* Handles a link whose socket is ready. A connection that fails to authenticate is closed silently. */
static int advance_link(struct tcp *t, struct tcp_link *l, struct err *e)
{
    size_t index = (size_t)(l - t->links);
    uint32_t events = tcp_link_events(l);
    int fd = l->fd; /* the dialer's reports end with another descriptor */
    struct err why = {0};
    size_t i;

    if (tcp_link_advance(l, &t->cfg, &why) < 0 ||
        ((l->fd != fd || tcp_link_events(l) != events) &&
         watch_link(t, l, l->fd != fd ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, tcp_link_events(l), &why) < 0)) {
        if (index < t->n_peers)
            return dial_failed(t, index, &why, e);
        if (l->has_other_version &&
            !t->is_open) /* once the mesh is open, a node of another version cannot belong to this job */
            fprintf(stderr, "%s\n", why.text);
        tcp_link_hang_up(l);
        return 0;
    }
    if (l->state != LINK_OPEN)
        return 0;
    epoll_ctl(t->links_epoll, EPOLL_CTL_DEL, l->fd, NULL);
    i = (size_t)tcp_peer_index(&t->cfg, l->node);
    if (!t->is_open)
        t->peers[i].is_local = tcp_link_is_local(l);
    if (index < t->n_peers) {
        tcp_link_keep_place(l);
        t->peers[i].tries[0] = (struct tcp_try){0};
    }
    tcp_peer_adopt(t, &t->peers[i], l->fd, l->tls, tcp_link_ack(l));
    l->fd = -1;
    l->tls = NULL;
    tcp_link_hang_up(&t->links[i]); /* the probe, if there is one */
    return 0;
}

int tcp_links_serve(struct tcp *t, struct err *e)
{
    struct epoll_event ev;
    int n = epoll_wait(t->links_epoll, &ev, 1, 0);
    struct tcp_link *l;

    if (n <= 0)
        return 0;
    l = ev.data.ptr;
    if (!l)
        accept_unproven(t);
    else if (l->fd >= 0)
        return advance_link(t, l, e) < 0 ? e->code : 1;
    return 1;
}

/* Does the peer's process listen, but has handled no connection since the broken one? Then it is busy
 * computing, and has not noticed that yet. If the process ends, so does this connection. */
static bool is_late(const struct tcp_peer *p, const struct tcp_link *l)
{
    return p->state == PEER_AWAITED && !p->was_seen && tcp_link_is_unseen(l);
}

/* A late peer is not lost as long as its machine answers: extends its deadlines. */
static void wait_for_late(struct tcp_peer *p, struct tcp_link *l, double now)
{
    double silence = tcp_link_peer_silence(l);

    if (silence < SUSPECT_S)
        l->deadline = now + DIAL_MOST_S;
    if (p->lost_at < now - silence + TCP_TIMEOUT_S)
        p->lost_at = now - silence + TCP_TIMEOUT_S;
}

/* `away`: seconds since the last call in which this node did not poll. */
static int maintain_links(struct tcp *t, double now, double away, struct err *e)
{
    for (size_t i = 0; i < t->n_links; i++) {
        struct tcp_link *l = &t->links[i];
        struct err why = {0};

        l->deadline += away;
        if (t->is_open && i < t->n_peers && is_late(&t->peers[i], l))
            wait_for_late(&t->peers[i], l, now);
        if (l->fd < 0 || now <= l->deadline)
            continue;
        tcp_link_timed_out(l, &t->cfg, &why);
        if (i < t->n_peers && dial_failed(t, i, &why, e) < 0)
            return e->code;
        tcp_link_hang_up(l);
    }
    return 0;
}

/* Does the peer's machine answer, but its process receive nothing, because it hangs or is stopped? Without a
 * connection, and so without a socket buffer, fewer than MESH_BACKLOG queued messages are normal. */
static bool is_stalled(const struct tcp *t, struct tcp_peer *p, double watched)
{
    bool is_waiting = p->n_unsent >= (p->state == PEER_LINKED ? 1 : MESH_BACKLOG);

    p->stalled_s = p->has_progressed || !is_waiting ? 0 : p->stalled_s + watched;
    p->has_progressed = false;
    return t->cfg.spec.drops_stalled && p->stalled_s > TCP_TIMEOUT_S;
}

/* Whether an incomplete TLS record makes no progress. TLS trusts a record's length before the record is
 * complete: if the length is damaged, this end waits for bytes that are never sent. */
static bool is_stuck_in_record(struct tcp_peer *p, double watched)
{
    size_t n = p->tls && !p->is_paused ? tls_unfinished(p->tls) : 0;

    p->partial_s = n == 0 || n != p->n_partial ? 0 : p->partial_s + watched;
    p->n_partial = n;
    return p->partial_s > SUSPECT_S;
}

/* `watched`: seconds since the last call, without those in which this node did not poll: it may have computed
 * for long, and has not read the messages that its peers have sent meanwhile. */
static void maintain_peer(struct tcp *t, size_t i, double now, double watched)
{
    struct tcp_peer *p = &t->peers[i];
    char why[MESH_REASON_MAX + 64];

    p->lost_at += p->state == PEER_AWAITED ? now - t->maintained_at - watched : 0;
    if (p->state != PEER_GONE && is_stalled(t, p, watched)) {
        snprintf(why, sizeof why, "it has received nothing for %g s, although messages are queued for it",
                 TCP_TIMEOUT_S);
        tcp_peer_drop(t, p, why);
    } else if (p->state == PEER_LINKED) {
        double silence = tcp_link_silence(p->fd), most = SUSPECT_S + watched;

        snprintf(why, sizeof why, "has not answered for %g s", SUSPECT_S);
        if (silence > SUSPECT_S)
            tcp_peer_break(t, p, TCP_TIMEOUT_S - (silence < most ? silence : most), why);
        else if (is_stuck_in_record(p, watched))
            tcp_peer_break(t, p, TCP_TIMEOUT_S, "has sent an incomplete TLS record");
    } else if (p->state == PEER_AWAITED && now > p->lost_at) {
        snprintf(why, sizeof why, "it %s, and could not be reached again for %g s", p->why, TCP_TIMEOUT_S);
        tcp_peer_drop(t, p, why);
    }
}

static int dial_if_due(struct tcp *t, size_t i, double now, struct err *e)
{
    struct tcp_peer *p = &t->peers[i];

    return p->state == PEER_AWAITED && now >= p->redial_at && t->links[i].fd < 0 ? dial_peer(t, i, e) : 0;
}

/* While peers are awaited every wake-up is followed by a check, on a machine with more nodes than processors:
 * it must not take longer with more peers. */
static double maintain_period(const struct tcp *t)
{
    double redial_s = REDIAL_EVERY_S * ceil((double)t->n_links / LINKS_CHECKED);

    return t->n_awaited > 0 ? fmin(redial_s, MAINTAIN_EVERY_S) : MAINTAIN_EVERY_S;
}

int tcp_links_maintain(struct tcp *t, double now, struct err *e)
{
    double since = now - t->maintained_at, watched = since < SUSPECT_S ? since : SUSPECT_S;

    if (now < t->maintain_at)
        return 0;
    if (maintain_links(t, now, since - watched, e) < 0)
        return e->code;
    for (size_t i = 0; i < t->n_peers; i++) {
        if (t->is_open)
            maintain_peer(t, i, now, watched);
        if ((t->is_open || is_mine_to_dial(t, i)) && dial_if_due(t, i, now, e) < 0)
            return e->code;
    }
    t->maintained_at = now;
    t->maintain_at = now + maintain_period(t);
    return 0;
}

/* Until the next dial is due. Hundreds of nodes may wait on a few processors, which those that still start
 * need: a node that only waits for others to connect wakes seldom. */
static int opening_wait_ms(const struct tcp *t)
{
    double now = clock_now(), until = now + OPENING_MS / 1e3;

    for (size_t i = 0; i < t->n_peers; i++)
        if (t->peers[i].state == PEER_AWAITED && is_mine_to_dial(t, i) && t->links[i].fd < 0)
            until = fmin(until, t->peers[i].redial_at);
    until = fmax(until, t->maintain_at); /* before that tcp_links_maintain does nothing */
    return until > now ? (int)(1e3 * (until - now)) + 1 : 0;
}

static int did_not_connect(const struct tcp *t, size_t i, struct err *e)
{
    const struct tcp_peer *p = &t->peers[i];
    char why[sizeof e->text - 64] = "";

    if (t->links[i].places.n > 1 && is_mine_to_dial(t, i))
        list_tries(why, sizeof why, t, i);
    else
        snprintf(why, sizeof why, "%s", p->tries[0].why);
    return err_set(e, ERR_TIMEOUT, "node %d did not connect in time%s%s", p->node, why[0] ? ": " : "", why);
}

int tcp_links_open(struct tcp *t, struct err *e)
{
    const struct tcp_config *cfg = &t->cfg;
    struct epoll_event listener = {.events = EPOLLIN}, links = {.events = EPOLLIN};

    if (epoll_ctl(t->links_epoll, EPOLL_CTL_ADD, cfg->address.listen_fd, &listener) < 0 ||
        epoll_ctl(t->epoll, EPOLL_CTL_ADD, t->links_epoll, &links) < 0)
        return err_call(e, ERR_IO, CALL_EPOLL_CTL, "epoll_ctl");
    for (size_t i = 0; i < t->n_peers; i++) {
        t->peers[i].pause = TCP_FIRST_PAUSE_S;
        if (tcp_link_resolve(&t->links[i], cfg, &cfg->address.peers[i], e) < 0)
            return e->code;
    }
    t->maintained_at = clock_now();
    while (t->n_awaited > 0) {
        struct epoll_event ev;
        int rc = 1;

        if (flag_is_up(cfg->spec.interrupted))
            return err_set(e, ERR_CANCELLED, "asked to stop while nodes were connecting");
        if (clock_now() > cfg->spec.deadline)
            break;
        if (tcp_links_maintain(t, clock_now(), e) < 0)
            return e->code;
        if (epoll_wait(t->links_epoll, &ev, 1, opening_wait_ms(t)) < 0 && errno != EINTR)
            return err_errno(e, ERR_IO, "epoll_wait");
        for (int i = 0; rc > 0 && i < OPENING_AT_ONCE; i++)
            rc = tcp_links_serve(t, e);
        if (rc < 0)
            return rc;
    }
    for (size_t i = 0; i < t->n_peers; i++)
        if (t->peers[i].state == PEER_AWAITED)
            return did_not_connect(t, i, e);
    t->is_open = true;
    return 0;
}
