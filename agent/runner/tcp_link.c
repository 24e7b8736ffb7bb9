#include "agent/runner/tcp_link.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/tcp.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "shared/clock.h"
#include "shared/crypto.h"

enum {
    HANDSHAKE_S = 5,
    KEEPALIVE_IDLE_S = 3,
    KEEPALIVE_EVERY_S = 2,
    KEEPALIVE_PROBES = 2,
    SILENCE_MS = 8000,
};

const struct mesh_peer *tcp_peer_find(const struct mesh_tcp_config *cfg, int node)
{
    for (size_t i = 0; i < cfg->n_peers; i++)
        if (cfg->peers[i].node == node)
            return &cfg->peers[i];
    return NULL;
}

/* A machine that vanishes without a word is to be noticed within 10 s. On an idle connection keep-alive does
 * it; on a busy one tcp_link_is_silent. No message waits for another. */
static void tune(int fd)
{
    const int on = 1, idle = KEEPALIVE_IDLE_S, every = KEEPALIVE_EVERY_S, probes = KEEPALIVE_PROBES;

    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &every, sizeof every);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
}

/* TCP_USER_TIMEOUT would do the same, but it also ends a connection whose other end is alive and merely does not
 * read for a while. So this asks the kernel: are bytes on the way that nobody has acknowledged, or ready to go
 * into an open window, and has nothing at all been heard for SILENCE_MS? A peer that does not read still
 * acknowledges what it was sent, and its window is closed. */
bool tcp_link_is_silent(int fd)
{
    struct tcp_info info;
    socklen_t size = sizeof info;
    bool is_open;

    memset(&info, 0, sizeof info);
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) < 0)
        return false;
    is_open = info.tcpi_snd_wnd >= info.tcpi_snd_mss;
    return (info.tcpi_unacked > 0 || (info.tcpi_notsent_bytes > 0 && is_open)) &&
           info.tcpi_last_ack_recv > SILENCE_MS && info.tcpi_last_data_recv > SILENCE_MS;
}

static int send_frame(struct tcp_link *l, const struct mesh_tcp_config *cfg, enum frame_kind kind,
                      const uint8_t *payload, size_t len, struct err *e)
{
    uint8_t out[FRAME_BYTES + 64];

    frame_pack(out, &(struct frame){.kind = kind,
                                    .job = frame_job(cfg->job),
                                    .attempt = cfg->attempt,
                                    .from = cfg->node,
                                    .to = l->node,
                                    .len = len});
    memcpy(out + FRAME_BYTES, payload, len);
    if (kind == FRAME_HELLO)
        memcpy(l->pair, out + 8, sizeof l->pair);
    /* A fresh connection's buffer takes these few bytes at once; one that does not is broken. */
    if (send(l->fd, out, FRAME_BYTES + len, MSG_NOSIGNAL | MSG_DONTWAIT) != (ssize_t)(FRAME_BYTES + len))
        return err_errno(e, ERR_LOST, "handshake");
    return 0;
}

static void prove(uint8_t out[SHA256_BYTES], const struct tcp_link *l, const struct mesh_tcp_config *cfg,
                  const char *who, const uint8_t *first, const uint8_t *second)
{
    uint8_t text[16 + 2 * HELLO_NONCE + sizeof l->pair] = {0};
    size_t n = strlen(who);

    memcpy(text, who, n);
    memcpy(text + n, first, HELLO_NONCE);
    memcpy(text + n + HELLO_NONCE, second, HELLO_NONCE);
    memcpy(text + n + 2 * HELLO_NONCE, l->pair, sizeof l->pair);
    hmac_sha256(out, cfg->key, sizeof cfg->key, text, n + 2 * HELLO_NONCE + sizeof l->pair);
}

int tcp_link_connect(struct tcp_link *l, const struct mesh_tcp_config *cfg, const struct mesh_peer *peer,
                     struct err *e)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    struct addrinfo *a;
    char port[8];
    int rc;

    *l = (struct tcp_link){.fd = -1, .state = LINK_CONNECTING, .node = peer->node, .deadline = cfg->deadline};
    snprintf(port, sizeof port, "%d", peer->port);
    rc = getaddrinfo(peer->host, port, &hints, &a);
    if (rc != 0)
        return err_set(e, ERR_LOST, "node %d at %s: %s", peer->node, peer->host, gai_strerror(rc));
    l->fd = socket(a->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (l->fd < 0) {
        freeaddrinfo(a);
        return err_errno(e, ERR_IO, "socket");
    }
    tune(l->fd);
    rc = connect(l->fd, a->ai_addr, a->ai_addrlen);
    freeaddrinfo(a);
    if (rc < 0 && errno != EINPROGRESS)
        return err_errno(e, ERR_LOST, "node %d at %s:%d", peer->node, peer->host, peer->port);
    return 0;
}

void tcp_link_accepted(struct tcp_link *l, const struct mesh_tcp_config *cfg, int fd)
{
    *l = (struct tcp_link){
        .fd = fd, .state = LINK_HELLO, .node = cfg->node, .deadline = clock_now() + HANDSHAKE_S};
    tune(fd);
}

static int connected(struct tcp_link *l, const struct mesh_tcp_config *cfg, struct err *e)
{
    const struct mesh_peer *p = tcp_peer_find(cfg, l->node);
    int so_error = 0;
    socklen_t size = sizeof so_error;

    getsockopt(l->fd, SOL_SOCKET, SO_ERROR, &so_error, &size);
    if (so_error) {
        errno = so_error;
        return err_errno(e, ERR_LOST, "node %d at %s:%d", l->node, p->host, p->port);
    }
    random_bytes(l->mine, sizeof l->mine);
    l->state = LINK_CHALLENGE;
    l->deadline = clock_now() + HANDSHAKE_S;
    return send_frame(l, cfg, FRAME_HELLO, l->mine, sizeof l->mine, e);
}

/* Reads at most what the handshake still has to say, so that messages behind it stay in the kernel. */
static int receive(struct tcp_link *l, const struct mesh_tcp_config *cfg, enum frame_kind kind,
                   size_t payload, bool *complete, struct err *e)
{
    size_t want = FRAME_BYTES + payload;
    struct frame f;
    ssize_t n = recv(l->fd, l->in + l->n_in, want - l->n_in, MSG_DONTWAIT);

    *complete = false;
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    if (n < 0)
        return err_errno(e, ERR_LOST, "handshake with node %d", l->node);
    if (n == 0)
        return err_set(e, ERR_LOST, "node %d ended the handshake: another key, another job, or it is gone",
                       l->node);
    l->n_in += (size_t)n;
    if (l->n_in < FRAME_BYTES)
        return 0;
    if (frame_unpack(&f, l->in, e) < 0)
        return e->code;
    if (f.kind != kind || f.len != payload || f.job != frame_job(cfg->job) || f.attempt != cfg->attempt ||
        f.to != cfg->node)
        return err_set(e, ERR_PROTOCOL, "a handshake that is not for attempt %u of this node", cfg->attempt);
    if (kind == FRAME_HELLO)
        l->node = f.from;
    if (f.from != l->node || !tcp_peer_find(cfg, l->node))
        return err_set(e, ERR_AUTH, "node %d is not a peer of this node", f.from);
    *complete = l->n_in == want;
    return 0;
}

static int take_hello(struct tcp_link *l, const struct mesh_tcp_config *cfg, struct err *e)
{
    uint8_t payload[HELLO_NONCE + SHA256_BYTES];

    memcpy(l->pair, l->in + 8, sizeof l->pair);
    memcpy(l->theirs, l->in + FRAME_BYTES, HELLO_NONCE);
    random_bytes(l->mine, sizeof l->mine);
    memcpy(payload, l->mine, HELLO_NONCE);
    prove(payload + HELLO_NONCE, l, cfg, "psgd acceptor", l->theirs, l->mine);
    l->state = LINK_PROOF;
    return send_frame(l, cfg, FRAME_CHALLENGE, payload, sizeof payload, e);
}

static int take_challenge(struct tcp_link *l, const struct mesh_tcp_config *cfg, struct err *e)
{
    uint8_t expected[SHA256_BYTES];

    memcpy(l->theirs, l->in + FRAME_BYTES, HELLO_NONCE);
    prove(expected, l, cfg, "psgd acceptor", l->mine, l->theirs);
    if (!equal_in_constant_time(expected, l->in + FRAME_BYTES + HELLO_NONCE, SHA256_BYTES))
        return err_set(e, ERR_AUTH, "node %d does not hold this job's key", l->node);
    prove(expected, l, cfg, "psgd connector", l->theirs, l->mine);
    l->state = LINK_OPEN;
    return send_frame(l, cfg, FRAME_PROOF, expected, sizeof expected, e);
}

static int take_proof(struct tcp_link *l, const struct mesh_tcp_config *cfg, struct err *e)
{
    uint8_t expected[SHA256_BYTES];

    prove(expected, l, cfg, "psgd connector", l->mine, l->theirs);
    if (!equal_in_constant_time(expected, l->in + FRAME_BYTES, SHA256_BYTES))
        return err_set(e, ERR_AUTH, "node %d does not hold this job's key", l->node);
    l->state = LINK_OPEN;
    return 0;
}

/* What a link waits for in each state, and what it then does. */
static const struct {
    enum frame_kind kind;
    size_t payload;
    int (*take)(struct tcp_link *, const struct mesh_tcp_config *, struct err *);
} steps[] = {
    [LINK_CHALLENGE] = {FRAME_CHALLENGE, HELLO_NONCE + SHA256_BYTES, take_challenge},
    [LINK_HELLO] = {FRAME_HELLO, HELLO_NONCE, take_hello},
    [LINK_PROOF] = {FRAME_PROOF, SHA256_BYTES, take_proof},
};

int tcp_link_advance(struct tcp_link *l, const struct mesh_tcp_config *cfg, struct err *e)
{
    bool complete;

    if (l->state == LINK_CONNECTING)
        return connected(l, cfg, e);
    if (receive(l, cfg, steps[l->state].kind, steps[l->state].payload, &complete, e) < 0)
        return e->code;
    if (!complete)
        return 0;
    l->n_in = 0;
    return steps[l->state].take(l, cfg, e);
}
