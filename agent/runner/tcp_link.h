/* tcp_link -- one pair's connection before it carries messages: made, tuned, and each end sure of the
 * other. */
#ifndef PSGD_TCP_LINK_H
#define PSGD_TCP_LINK_H

#include "agent/runner/mesh_tcp.h"

enum { HELLO_NONCE = 16 };

enum link_state {
    LINK_CONNECTING, /* connect() is under way */
    LINK_CHALLENGE,  /* our hello is out, the challenge not in */
    LINK_HELLO,      /* accepted; the hello is not in */
    LINK_PROOF,      /* our challenge is out, the proof not in */
    LINK_OPEN
};

struct tcp_link {
    int fd;
    enum link_state state;
    int node; /* the peer; unknown (accepted, no hello yet): the own node */
    double deadline;
    uint8_t in[FRAME_BYTES + 64];
    size_t n_in;
    uint8_t mine[HELLO_NONCE], theirs[HELLO_NONCE];
    uint8_t pair[20]; /* bytes 8-27 of the hello: job, attempt, from, to */
};

/* Starts to connect. ERR_LOST: refused or no route, with the peer's address. */
int tcp_link_connect(struct tcp_link *l, const struct mesh_tcp_config *cfg, const struct mesh_peer *peer,
                     struct err *e);
void tcp_link_accepted(struct tcp_link *l, const struct mesh_tcp_config *cfg, int fd);

/* Goes on as far as it can without waiting; call when the socket is ready. Returns 0, also while unfinished:
 * look at state. For an accepted link, `node` is the peer once the hello is in. */
int tcp_link_advance(struct tcp_link *l, const struct mesh_tcp_config *cfg, struct err *e);

/* Has the machine at the other end of an open link stopped to answer? Ask once a second or so. */
bool tcp_link_is_silent(int fd);

const struct mesh_peer *tcp_peer_find(const struct mesh_tcp_config *cfg,
                                      int node); /* NULL: not one of ours */

#endif
