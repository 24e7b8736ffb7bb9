/* tcp_link -- one pair's connection before it carries messages: made, tuned, and each end sure of the
 * other and of what it has heard. */
#ifndef PSGD_TCP_LINK_H
#define PSGD_TCP_LINK_H

#include <sys/socket.h>

#include "agent/runner/mesh/tcp/mesh_tcp.h"
#include "agent/runner/mesh/tcp/tls.h"

enum { HELLO_NONCE = 16 };

enum link_state {
    LINK_CONNECTING, /* connect() is under way */
    LINK_PROBING,    /* the same, only to see whether anybody listens there */
    LINK_LISTENS,    /* somebody does: the connection is kept to see for how long */
    LINK_HELLO,      /* the other end's hello is not in */
    LINK_TLS,        /* its handshake */
    LINK_CHALLENGE,  /* of ours: the challenge is not in */
    LINK_PROOF,      /* accepted: our challenge is out, the proof not in */
    LINK_OPEN
};

struct tcp_link {
    int fd;
    struct tls *tls; /* NULL: none, or not yet */
    enum link_state state;
    bool is_accepted;
    int node; /* the peer; unknown (accepted, no hello yet): the own node */
    double deadline;
    struct sockaddr_storage at; /* of a peer to connect to */
    socklen_t at_len;
    bool was_refused;           /* nobody listens there */
    bool is_of_another_version; /* accepted, and its hello says so */
    bool was_seen; /* the process at the other end has spoken or hung up: it looks at its connections */
    const uint32_t *received; /* (cfg->n_peers) seq of the last message heard of each */
    uint8_t in[FRAME_BYTES + 64];
    size_t n_in;
    struct frame frame; /* the last one in */
    uint8_t mine[HELLO_NONCE], theirs[HELLO_NONCE];
    uint8_t pair[20]; /* bytes 8-27 of the connector's hello: job, attempt, from, to */
    uint32_t hello_ack, challenge_ack;
};

/* Looks the peer's address up, once: connecting then waits for nobody. ERR_LOST. */
int tcp_link_resolve(struct tcp_link *l, const struct mesh_peer *peer, struct err *e);
bool tcp_link_is_near(const struct tcp_link *l); /* is the resolved address this machine's? */

/* Starts to connect, in LINK_CONNECTING or LINK_PROBING. ERR_LOST: refused or no route, with the peer's
 * address. The caller hangs up, also then. */
int tcp_link_connect(struct tcp_link *l, const struct mesh_tcp_config *cfg, enum link_state state,
                     struct err *e);
void tcp_link_accepted(struct tcp_link *l, const struct mesh_tcp_config *cfg, const uint32_t *received,
                       int fd);

/* Goes on as far as it can without waiting; call when the socket is ready. Returns 0, also while unfinished:
 * look at state. For an accepted link, `node` is the peer once the hello is in. One that only probes ends in
 * LINK_LISTENS, and from there with ERR_LOST when the other end hangs up. */
int tcp_link_advance(struct tcp_link *l, const struct mesh_tcp_config *cfg, struct err *e);

/* Connected, and the process at the other end has not looked yet. */
bool tcp_link_is_unseen(const struct tcp_link *l);
void tcp_link_hang_up(struct tcp_link *l);
uint32_t tcp_link_ack(const struct tcp_link *l); /* of an open link: the last message the peer has heard */

/* Seconds for which the machine at the other end has answered nothing, though it was asked; ask once a
 * second or so. */
double tcp_link_silence(int fd);
double tcp_link_round_trip(int fd); /* seconds, as the kernel has it; 0: it does not know */

/* Index among cfg->peers, or -1: not one of ours. */
int tcp_peer_index(const struct mesh_tcp_config *cfg, int node);

#endif
