#include "runner/mesh/tcp/tcp_link.h"

#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <linux/tcp.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "shared/base/address.h"
#include "shared/base/clock.h"
#include "shared/base/crypto.h"
#include "shared/base/fd_pass.h"

static const double HANDSHAKE_S = 5; /* most time of the handshake of a new connection */

int tcp_peer_index(const struct tcp_config *cfg, int node)
{
    for (size_t i = 0; i < cfg->address.n_peers; i++)
        if (cfg->address.peers[i].node == node)
            return (int)i;
    return -1;
}

/* Replaces TCP_USER_TIMEOUT, which also ends a connection whose peer is alive and only does not read for a
 * while: its window is closed, and the kernel probes it more and more rarely. That state counts as no
 * silence here; in every other state unacknowledged data or keep-alive requires an answer. */
double tcp_link_silence(int fd)
{
    struct tcp_info info;
    socklen_t size = sizeof info;
    unsigned ms;

    memset(&info, 0, sizeof info);
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) < 0)
        return 0;
    if (info.tcpi_unacked == 0 && info.tcpi_notsent_bytes > 0 && info.tcpi_snd_wnd < info.tcpi_snd_mss)
        return 0;
    ms = info.tcpi_last_ack_recv < info.tcpi_last_data_recv ? info.tcpi_last_ack_recv
                                                            : info.tcpi_last_data_recv;
    return ms / 1e3;
}

double tcp_link_round_trip(int fd)
{
    struct tcp_info info;
    socklen_t size = sizeof info;

    memset(&info, 0, sizeof info);
    return getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) < 0 ? 0 : info.tcpi_rtt / 1e6;
}

double tcp_link_peer_silence(struct tcp_link *l)
{
    if (!l->awaits_report)
        return tcp_link_silence(l->fd);
    if (!l->has_asked)
        l->has_asked = send(l->fd, "", 1, MSG_NOSIGNAL | MSG_DONTWAIT) == 1;
    return l->silence;
}

/* The peer's address is known from connect or accept: getpeername fails once the peer has reset. */
bool tcp_link_is_local(const struct tcp_link *l)
{
    struct sockaddr_storage own = {0};
    socklen_t len = sizeof own;

    return getsockname(l->fd, (struct sockaddr *)&own, &len) == 0 && tcp_is_one_machine(&own, &l->at);
}

static bool wants_tls(const struct tcp_link *l, const struct tcp_config *cfg)
{
    return cfg->address.tls == MESH_TLS_ON || (cfg->address.tls == MESH_TLS_AUTO && !tcp_link_is_local(l));
}

static int send_frame(struct tcp_link *l, const struct tcp_config *cfg, enum frame_kind kind, uint32_t ack,
                      const uint8_t *payload, size_t len, struct err *e)
{
    uint8_t out[FRAME_BYTES + 64];
    struct iovec v = {out, FRAME_BYTES + len};
    ssize_t n;

    frame_pack(out, &(struct frame){.kind = kind,
                                    .wants_tls = kind == FRAME_HELLO && wants_tls(l, cfg),
                                    .job = frame_job(cfg->address.job),
                                    .attempt = cfg->address.attempt,
                                    .from = cfg->spec.node,
                                    .to = l->node,
                                    .ack = ack,
                                    .len = len});
    memcpy(out + FRAME_BYTES, payload, len);
    if (kind == FRAME_HELLO && !l->is_accepted)
        memcpy(l->pair, out + 8, sizeof l->pair);
    n = l->tls ? tls_send(l->tls, &v, 1) : send(l->fd, out, v.iov_len, MSG_NOSIGNAL | MSG_DONTWAIT);
    /* These few bytes fit into the empty buffer of a new connection; otherwise it is broken. */
    return n == (ssize_t)v.iov_len ? 0 : err_errno(e, ERR_LOST, "handshake");
}

/* The proof of `role` (docs/protocol.md §3). Requires that l->node is a peer. */
static void write_proof(uint8_t out[SHA256_BYTES], const struct tcp_link *l, const struct tcp_config *cfg,
                        const char *role, const uint8_t *first, const uint8_t *second)
{
    const uint32_t acks[2] = {htole32(l->proof_ack), htole32(l->challenge_ack)};
    uint8_t text[16 + 2 * HELLO_NONCE + sizeof l->pair + sizeof acks] = {0};
    size_t n = strlen(role);

    memcpy(text, role, n);
    memcpy(text + n, first, HELLO_NONCE);
    memcpy(text + n + HELLO_NONCE, second, HELLO_NONCE);
    memcpy(text + n + 2 * HELLO_NONCE, l->pair, sizeof l->pair);
    memcpy(text + n + 2 * HELLO_NONCE + sizeof l->pair, acks, sizeof acks);
    hmac_sha256(out, cfg->address.peers[tcp_peer_index(cfg, l->node)].key, MESH_KEY_BYTES, text,
                n + 2 * HELLO_NONCE + sizeof l->pair + sizeof acks);
}

int tcp_link_resolve(struct tcp_link *l, const struct tcp_config *cfg, const struct mesh_peer *peer,
                     struct err *e)
{
    const struct tcp_dialer *d = cfg->address.dialer;

    l->node = peer->node;
    l->place = 0;
    return d ? d->find(d->owner, peer->node, &l->places, e)
             : tcp_find(&l->places, peer->node, peer->host, peer->port, e);
}

void tcp_link_keep_place(struct tcp_link *l)
{
    l->places.at[0] = l->places.at[l->place];
    l->places.n = 1;
    l->place = 0;
}

static int dial_target(const struct tcp_link *l, const struct tcp_config *cfg)
{
    const struct tcp_aim aim = {.is_probe = l->state == LINK_PROBING, .tls = cfg->address.tls};
    const struct tcp_dialer *d = cfg->address.dialer;
    const struct tcp_place *p = &l->places.at[l->place];

    return d ? d->dial(d->owner, l->node, p->index, &aim) : tcp_dial(p);
}

void tcp_link_peer_address(char *out, size_t size, const struct mesh_peer *p)
{
    snprintf(out, size, strchr(p->host, ':') ? "[%s]:%d" : "%s:%d", p->host, p->port);
}

enum { PEER_TEXT = 300 };

/* "node 1 at 10.0.0.1:9000"; of an accepted link "node 1". */
static const char *name_peer(char out[PEER_TEXT], const struct tcp_link *l, const struct tcp_config *cfg)
{
    int n = snprintf(out, PEER_TEXT, "node %d%s", l->node, l->is_accepted ? "" : " at ");

    if (!l->is_accepted)
        tcp_link_peer_address(out + n, PEER_TEXT - (size_t)n,
                              &cfg->address.peers[tcp_peer_index(cfg, l->node)]);
    return out;
}

static int cannot_connect(struct tcp_link *l, const struct tcp_config *cfg, int why, struct err *e)
{
    char peer[PEER_TEXT];

    l->connect_error = errno = why;
    return err_errno(e, ERR_LOST, "%s", name_peer(peer, l, cfg));
}

void tcp_link_timed_out(struct tcp_link *l, const struct tcp_config *cfg, struct err *e)
{
    char peer[PEER_TEXT];

    if (l->state == LINK_CONNECTING || l->state == LINK_PROBING)
        cannot_connect(l, cfg, ETIMEDOUT, e);
    else
        err_set(e, ERR_TIMEOUT, "%s did not finish the handshake in time", name_peer(peer, l, cfg));
}

int tcp_link_connect(struct tcp_link *l, const struct tcp_config *cfg, enum link_state state, struct err *e)
{
    l->state = state;
    l->n_in = 0;
    l->was_seen = l->has_asked = false;
    l->awaits_report = cfg->address.dialer && cfg->address.dialer->exchanges_hellos;
    l->silence = 0;
    l->connect_error = 0;
    l->proof_ack = l->challenge_ack = 0;
    l->at = l->places.at[l->place].at;
    l->at_len = l->places.at[l->place].len;
    l->fd = dial_target(l, cfg);
    if (l->fd < 0)
        return cannot_connect(l, cfg, errno, e);
    return 0;
}

void tcp_link_accepted(struct tcp_link *l, const struct tcp_config *cfg, const uint32_t *received, int fd,
                       const struct sockaddr_storage *from, socklen_t from_len)
{
    *l = (struct tcp_link){.fd = fd,
                           .at = *from,
                           .at_len = from_len,
                           .state = LINK_HELLO,
                           .is_accepted = true,
                           .node = cfg->spec.node,
                           .deadline = clock_now() + HANDSHAKE_S,
                           .received = received};
    tcp_tune_accepted(fd, tcp_link_is_local(l));
}

static uint32_t received_of(const struct tcp_link *l, const struct tcp_config *cfg)
{
    return l->received[tcp_peer_index(cfg, l->node)];
}

static void be_connected(struct tcp_link *l)
{
    l->deadline = clock_now() + HANDSHAKE_S;
    l->state = l->state == LINK_PROBING ? LINK_LISTENS : LINK_HELLO;
}

static int connected(struct tcp_link *l, const struct tcp_config *cfg, struct err *e)
{
    int so_error = 0;
    socklen_t size = sizeof so_error;

    getsockopt(l->fd, SOL_SOCKET, SO_ERROR, &so_error, &size);
    if (so_error)
        return cannot_connect(l, cfg, so_error, e);
    be_connected(l);
    if (l->state == LINK_LISTENS)
        return 0;
    random_bytes(l->mine, sizeof l->mine);
    return send_frame(l, cfg, FRAME_HELLO, 0, l->mine, sizeof l->mine, e);
}

uint32_t tcp_link_ack(const struct tcp_link *l)
{
    return l->frame.kind == FRAME_CHALLENGE ? l->challenge_ack : l->proof_ack;
}

/* Handles a header that frame_unpack rejected. A HELLO of another version is answered by this node's HELLO,
 * so that both ends can report both versions. */
static int refuse_frame(struct tcp_link *l, const struct tcp_config *cfg, struct err *e)
{
    char host[NI_MAXHOST] = "an unknown address", peer[PEER_TEXT];
    struct err ignored = {0};

    if (!l->is_accepted)
        return err_at(e, "%s", name_peer(peer, l, cfg));
    l->has_other_version = l->state == LINK_HELLO && frame_has_other_version(l->in);
    if (l->has_other_version)
        send_frame(l, cfg, FRAME_HELLO, 0, l->mine, sizeof l->mine, &ignored);
    getnameinfo((const struct sockaddr *)&l->at, l->at_len, host, sizeof host, NULL, 0, NI_NUMERICHOST);
    return err_at(e, "a connection from %s", host);
}

/* Checks what has arrived of a handshake frame. */
static int check_received(struct tcp_link *l, const struct tcp_config *cfg, enum frame_kind kind,
                          size_t payload, bool *complete, struct err *e)
{
    struct frame *f = &l->frame;
    char peer[PEER_TEXT];

    *complete = false;
    if (l->n_in < FRAME_BYTES)
        return 0;
    if (frame_unpack(f, l->in, e) < 0)
        return refuse_frame(l, cfg, e);
    if (f->kind != kind || f->len != payload || f->job != frame_job(cfg->address.job) ||
        f->attempt != cfg->address.attempt || f->to != cfg->spec.node)
        return err_set(e, ERR_PROTOCOL, "%s sent a handshake that is not for attempt %u of this node",
                       name_peer(peer, l, cfg), cfg->address.attempt);
    if (kind == FRAME_HELLO && l->is_accepted)
        l->node = f->from;
    if (!l->is_accepted && f->from != l->node)
        return err_set(e, ERR_AUTH, "%s answers as node %d", name_peer(peer, l, cfg), f->from);
    if (f->from != l->node || tcp_peer_index(cfg, l->node) < 0)
        return err_set(e, ERR_AUTH, "node %d is not a peer of this node", f->from);
    *complete = l->n_in == FRAME_BYTES + payload;
    return 0;
}

/* Reads at most to the end of this handshake frame, so that later messages stay in the kernel. */
static int receive_frame(struct tcp_link *l, const struct tcp_config *cfg, enum frame_kind kind,
                         size_t payload, bool *complete, struct err *e)
{
    size_t want = FRAME_BYTES + payload;
    char peer[PEER_TEXT];
    ssize_t n = l->tls ? tls_recv(l->tls, l->in + l->n_in, want - l->n_in)
                       : recv(l->fd, l->in + l->n_in, want - l->n_in, MSG_DONTWAIT);

    *complete = false;
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    if (n < 0)
        return err_errno(e, ERR_LOST, "handshake with %s", name_peer(peer, l, cfg));
    l->was_seen = true;
    if (n == 0)
        return err_set(e, ERR_LOST, "%s ended the handshake: its key or its job differs, or it has ended",
                       name_peer(peer, l, cfg));
    l->n_in += (size_t)n;
    return check_received(l, cfg, kind, payload, complete, e);
}

/* After the HELLOs, and the TLS handshake if there is one, both ends prove the key, the acceptor first. */
static int start_key_proof(struct tcp_link *l, const struct tcp_config *cfg, struct err *e)
{
    uint8_t proof[SHA256_BYTES];

    if (!l->is_accepted) {
        l->state = LINK_CHALLENGE;
        return 0;
    }
    l->challenge_ack = received_of(l, cfg);
    write_proof(proof, l, cfg, "psgd acceptor", l->theirs, l->mine);
    l->state = LINK_PROOF;
    return send_frame(l, cfg, FRAME_CHALLENGE, l->challenge_ack, proof, sizeof proof, e);
}

static int advance_tls(struct tcp_link *l, const struct tcp_config *cfg, struct err *e)
{
    int rc = tls_handshake(l->tls, e);

    if (rc < 0)
        return err_at(e, "node %d", l->node);
    if (rc == TLS_WANTS_WRITE) /* few bytes: as in send_frame */
        return err_set(e, ERR_LOST, "node %d does not receive the TLS handshake", l->node);
    return rc == TLS_DONE ? start_key_proof(l, cfg, e) : 0;
}

static int start_tls(struct tcp_link *l, const struct tcp_config *cfg, struct err *e)
{
    char identity[TLS_IDENTITY_MAX];

    /* In the order job, attempt, acceptor, connector; the earlier node of a pair accepts. */
    snprintf(identity, sizeof identity, "%s|%u|%d|%d", cfg->address.job, cfg->address.attempt,
             l->is_accepted ? cfg->spec.node : l->node, l->is_accepted ? l->node : cfg->spec.node);
    l->state = LINK_TLS;
    if (tls_new(&l->tls, l->fd, l->is_accepted, identity,
                cfg->address.peers[tcp_peer_index(cfg, l->node)].key, e) < 0)
        return e->code;
    return advance_tls(l, cfg, e);
}

/* TLS is not negotiated: if the ends' settings differ, both end the connection. */
static int refuse_tls_mismatch(const struct tcp_link *l, struct err *e)
{
    err_set(e, ERR_AUTH,
            "--data-tls: node %d connects %s TLS, this node %s: they disagree on whether they are on one "
            "machine (is there address translation between them?); set it to on or off instead of auto",
            l->node, l->frame.wants_tls ? "with" : "without", l->frame.wants_tls ? "without" : "with");
    if (l->is_accepted) /* the caller drops unauthenticated connections without a message */
        fprintf(stderr, "%s\n", e->text);
    return e->code;
}

static int take_hello(struct tcp_link *l, const struct tcp_config *cfg, struct err *e)
{
    memcpy(l->theirs, l->in + FRAME_BYTES, HELLO_NONCE);
    if (l->is_accepted) {
        memcpy(l->pair, l->in + 8, sizeof l->pair);
        random_bytes(l->mine, sizeof l->mine);
        if (send_frame(l, cfg, FRAME_HELLO, 0, l->mine, sizeof l->mine, e) < 0)
            return e->code;
    }
    if (l->frame.wants_tls != wants_tls(l, cfg))
        return refuse_tls_mismatch(l, e);
    if (cfg->only_greets && !l->is_accepted) {
        l->state = LINK_GREETED;
        return 0;
    }
    return l->frame.wants_tls ? start_tls(l, cfg, e) : start_key_proof(l, cfg, e);
}

static int take_challenge(struct tcp_link *l, const struct tcp_config *cfg, struct err *e)
{
    uint8_t expected[SHA256_BYTES];

    l->challenge_ack = l->frame.ack;
    write_proof(expected, l, cfg, "psgd acceptor", l->mine, l->theirs);
    if (!equal_in_constant_time(expected, l->in + FRAME_BYTES, SHA256_BYTES))
        return err_set(e, ERR_AUTH, "node %d does not hold the key of this pair", l->node);
    l->proof_ack = received_of(l, cfg);
    write_proof(expected, l, cfg, "psgd connector", l->theirs, l->mine);
    l->state = LINK_OPEN;
    return send_frame(l, cfg, FRAME_PROOF, l->proof_ack, expected, sizeof expected, e);
}

static int take_proof(struct tcp_link *l, const struct tcp_config *cfg, struct err *e)
{
    uint8_t expected[SHA256_BYTES];

    l->proof_ack = l->frame.ack;
    write_proof(expected, l, cfg, "psgd connector", l->mine, l->theirs);
    if (!equal_in_constant_time(expected, l->in + FRAME_BYTES, SHA256_BYTES))
        return err_set(e, ERR_AUTH, "node %d does not hold the key of this pair", l->node);
    l->state = LINK_OPEN;
    return 0;
}

/* The frame expected in each state, and its handler. */
static const struct {
    enum frame_kind kind;
    size_t payload;
    int (*take)(struct tcp_link *, const struct tcp_config *, struct err *);
} steps[] = {
    [LINK_HELLO] = {FRAME_HELLO, HELLO_NONCE, take_hello},
    [LINK_CHALLENGE] = {FRAME_CHALLENGE, SHA256_BYTES, take_challenge},
    [LINK_PROOF] = {FRAME_PROOF, SHA256_BYTES, take_proof},
};

static void log_link(const struct tcp_link *l)
{
    if (l->tls)
        fprintf(stderr, "link to node %d: TLS 1.3, %s\n", l->node, tls_cipher(l->tls));
    else if (!tcp_link_is_local(l))
        fprintf(stderr, "link to node %d: not encrypted\n", l->node);
}

static int step_handshake(struct tcp_link *l, const struct tcp_config *cfg, struct err *e)
{
    bool complete;

    if (l->state == LINK_TLS)
        return advance_tls(l, cfg, e);
    if (receive_frame(l, cfg, steps[l->state].kind, steps[l->state].payload, &complete, e) < 0)
        return e->code;
    if (!complete)
        return 0;
    l->n_in = 0;
    return steps[l->state].take(l, cfg, e);
}

/* A peer sends no bytes to a probe: it only closes it. */
static int advance_probe(struct tcp_link *l, struct err *e)
{
    uint8_t byte;
    ssize_t n = recv(l->fd, &byte, sizeof byte, MSG_DONTWAIT);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    l->was_seen = n >= 0;
    return err_set(e, ERR_LOST, "node %d closed the connection", l->node);
}

uint32_t tcp_link_events(const struct tcp_link *l)
{
    bool connects = l->state == LINK_CONNECTING || l->state == LINK_PROBING;

    return connects && !l->awaits_report ? EPOLLOUT : EPOLLIN;
}

void tcp_link_report(struct tcp_link_report *out, const struct tcp_link *l, const struct err *why)
{
    bool connects = l->state == LINK_CONNECTING || l->state == LINK_PROBING;

    memset(out, 0, sizeof *out);
    out->state = why->code                  ? TCP_FAILED
                 : l->state == LINK_GREETED ? TCP_GREETED
                 : connects                 ? TCP_CONNECTING
                                            : TCP_CONNECTED;
    out->was_seen = l->was_seen;
    out->silence = tcp_link_silence(l->fd);
    if (why->code) {
        out->code = why->code;
        out->connect_error = l->connect_error;
        snprintf(out->why, sizeof out->why, "%s", why->text);
    }
    if (out->state == TCP_GREETED) {
        memcpy(out->mine, l->mine, sizeof out->mine);
        memcpy(out->pair, l->pair, sizeof out->pair);
        memcpy(out->hello, l->in, sizeof out->hello);
    }
}

/* The peer's HELLO is checked as if it had just been received, and the handshake continues. */
static int take_greeted(struct tcp_link *l, const struct tcp_config *cfg,
                        const struct tcp_link_report *report, int fd, struct err *e)
{
    bool complete;

    close(l->fd);
    l->fd = fd;
    l->awaits_report = false;
    be_connected(l);
    memcpy(l->mine, report->mine, sizeof l->mine);
    memcpy(l->pair, report->pair, sizeof l->pair);
    memcpy(l->in, report->hello, sizeof report->hello);
    l->n_in = sizeof report->hello;
    if (check_received(l, cfg, FRAME_HELLO, HELLO_NONCE, &complete, e) < 0)
        return e->code;
    l->n_in = 0;
    return take_hello(l, cfg, e);
}

int tcp_lacks_descriptors(struct err *e)
{
    struct rlimit files = {0};

    getrlimit(RLIMIT_NOFILE, &files);
    return err_set(e, ERR_CODEC,
                   "the node has no descriptor left for a connection, of the %llu that it may have: does the "
                   "codec open files and not close them?",
                   (unsigned long long)files.rlim_cur);
}

/* Handles a report about a connection that the dialer makes. */
static int receive_report(struct tcp_link *l, const struct tcp_config *cfg, struct err *e)
{
    struct tcp_link_report report;
    int fd;
    ssize_t n = fd_pass_receive(l->fd, &report, sizeof report, &fd, MSG_DONTWAIT);

    if (n < 0 &&
        errno == ECONNRESET) /* the dialer has closed with an unread byte; reports may still follow */
        n = fd_pass_receive(l->fd, &report, sizeof report, &fd, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    if (n != (ssize_t)sizeof report || (fd >= 0 && report.state != TCP_GREETED)) {
        if (fd >= 0)
            close(fd);
        return err_set(e, ERR_LOST, "this node's monitor process has ended: it was killed, or it crashed");
    }
    if (report.state == TCP_GREETED && fd < 0) /* this process had no descriptor left to receive it */
        return tcp_lacks_descriptors(e);
    l->was_seen |= report.was_seen;
    l->silence = report.silence;
    l->has_asked = false;
    if (report.state == TCP_GREETED)
        return take_greeted(l, cfg, &report, fd, e);
    if (report.state == TCP_CONNECTED && (l->state == LINK_CONNECTING || l->state == LINK_PROBING))
        be_connected(l);
    if (report.state != TCP_FAILED)
        return 0;
    l->connect_error = report.connect_error;
    return err_set(e, report.code, "%s", report.why);
}

int tcp_link_advance(struct tcp_link *l, const struct tcp_config *cfg, struct err *e)
{
    if (l->awaits_report)
        return receive_report(l, cfg, e);
    if (l->state == LINK_CONNECTING || l->state == LINK_PROBING)
        return connected(l, cfg, e);
    if (l->state == LINK_LISTENS)
        return advance_probe(l, e);
    do
        if (step_handshake(l, cfg, e) < 0)
            return e->code;
    while (l->state != LINK_OPEN && l->tls && tls_has_input(l->tls)); /* a poll does not show these bytes */
    if (l->state == LINK_OPEN)
        log_link(l);
    return 0;
}

bool tcp_link_is_unseen(const struct tcp_link *l)
{
    return l->fd >= 0 && !l->was_seen && (l->state == LINK_HELLO || l->state == LINK_LISTENS);
}

void tcp_link_hang_up(struct tcp_link *l)
{
    tls_close(l->tls);
    l->tls = NULL;
    if (l->fd >= 0)
        close(l->fd);
    l->fd = -1;
}
