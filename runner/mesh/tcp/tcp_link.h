/* tcp_link -- the handshake of one connection: connect or accept, set socket options, authenticate both
 * ends, and exchange which messages each has received (docs/protocol.md §3). */
#ifndef PSGD_TCP_LINK_H
#define PSGD_TCP_LINK_H

#include <sys/socket.h>

#include "runner/mesh/mesh.h"
#include "runner/mesh/tcp/tcp_dial.h"
#include "runner/mesh/tcp/tls.h"

enum { HELLO_NONCE = 16 };

struct tcp_config { /* how mesh_open was called */
    struct mesh_spec spec;
    struct mesh_tcp_address address;
    bool only_greets; /* the handshake ends in LINK_GREETED, and another process continues it */
};

enum link_state {
    LINK_CONNECTING, /* connect() in progress */
    LINK_PROBING,    /* the same, only to test whether the peer's port is open */
    LINK_LISTENS,    /* the port is open: the connection is kept, to notice when the process ends */
    LINK_HELLO,      /* waits for the peer's HELLO */
    LINK_TLS,        /* TLS handshake in progress */
    LINK_CHALLENGE,  /* connector: waits for the CHALLENGE */
    LINK_PROOF,      /* acceptor: sent the CHALLENGE, waits for the PROOF */
    LINK_GREETED,    /* connector of a config that only greets: has the peer's HELLO */
    LINK_OPEN
};

enum { HELLO_BYTES = FRAME_BYTES + HELLO_NONCE };

/* A packet by which a dialer that exchanges the HELLOs reports the state of a connection. A TCP_GREETED
 * report comes with the connection's socket. The dialer answers each packet of one byte with a report of the
 * present state. */
struct tcp_link_report {
    enum { TCP_CONNECTING, TCP_CONNECTED, TCP_GREETED, TCP_FAILED } state; /* the last two end the reports */
    bool was_seen;                                                         /* as in struct tcp_link */
    double silence;                                                        /* of tcp_link_silence */
    int32_t code, connect_error; /* TCP_FAILED: an err_code, and as in struct tcp_link */
    char why[sizeof((struct err *)0)->text];
    uint8_t mine[HELLO_NONCE], pair[20], hello[HELLO_BYTES]; /* TCP_GREETED; hello: the peer's */
};

struct tcp_link {
    int fd; /* the connection; while awaits_report, the socket on which the dialer's reports arrive */
    bool awaits_report; /* the dialer has not passed on the connection yet */
    bool has_asked;     /* for a report of the present state */
    double silence;     /* as last reported */
    struct tls *tls;    /* NULL: none, or not yet */
    enum link_state state;
    bool is_accepted;
    int node; /* the peer; this node's own id while unknown (accepted, no HELLO yet) */
    double deadline;
    struct tcp_places places;   /* the peer's addresses; of an accepted link none */
    uint32_t place;             /* index of the one in use */
    struct sockaddr_storage at; /* address of the peer: connected to, or as accept returned it */
    socklen_t at_len;
    int connect_error;        /* errno of the failed connect; 0: it has not failed */
    bool has_other_version;   /* accepted, and its HELLO has another version */
    bool was_seen;            /* the peer's process has sent bytes or closed: it handles its connections */
    const uint32_t *received; /* (cfg->address.n_peers) seq of the last message received from each */
    uint8_t in[FRAME_BYTES + 64];
    size_t n_in;
    struct frame frame; /* the last one received */
    uint8_t mine[HELLO_NONCE], theirs[HELLO_NONCE];
    uint8_t pair[20];                  /* bytes 8-27 of the connector's HELLO: job, attempt, from, to */
    uint32_t proof_ack, challenge_ack; /* 0: not exchanged yet */
};

/* Resolves the peer's addresses, once, so that connecting does not block. ERR_LOST. */
int tcp_link_resolve(struct tcp_link *l, const struct tcp_config *cfg, const struct mesh_peer *peer,
                     struct err *e);

/* Starts to connect to the present place, in state LINK_CONNECTING or LINK_PROBING. ERR_LOST: refused or no
 * route; the text has the peer's address. The caller calls tcp_link_hang_up, also on error. */
int tcp_link_connect(struct tcp_link *l, const struct tcp_config *cfg, enum link_state state, struct err *e);
/* The deadline of connecting, or of the handshake, is over: sets the message, and connect_error. */
void tcp_link_timed_out(struct tcp_link *l, const struct tcp_config *cfg, struct err *e);
/* Keeps only the present address, at which the peer answers. */
void tcp_link_keep_place(struct tcp_link *l);
/* Whether both ends of the connection are on this machine. Both compare the same two addresses, so they
 * agree. */
bool tcp_link_is_local(const struct tcp_link *l);
/* Writes "host:port" or "[v6]:port" as the agent named it. */
void tcp_link_peer_address(char *out, size_t size, const struct mesh_peer *p);
/* Takes an accepted connection `fd` and its peer's address, as accept(2) returned it. */
void tcp_link_accepted(struct tcp_link *l, const struct tcp_config *cfg, const uint32_t *received, int fd,
                       const struct sockaddr_storage *from, socklen_t from_len);

/* Advances the handshake without blocking; call when the socket is ready. Returns 0 also while unfinished:
 * check `state`. `node` of an accepted link is the peer once its HELLO arrived. A probe reaches
 * LINK_LISTENS, and then fails with ERR_LOST when the peer closes it. */
int tcp_link_advance(struct tcp_link *l, const struct tcp_config *cfg, struct err *e);

/* ERR_CODEC: this process has no descriptor left for a connection. The agent gives a node enough of them. */
int tcp_lacks_descriptors(struct err *e);

/* The events of `fd` to wait for. */
uint32_t tcp_link_events(const struct tcp_link *l);
/* Fills in a dialer's report of a link that it advances. `why`: the error with which it has failed; code 0:
 * it has not failed. */
void tcp_link_report(struct tcp_link_report *out, const struct tcp_link *l, const struct err *why);

/* Whether the link is connected but the peer's process has not handled it yet. */
bool tcp_link_is_unseen(const struct tcp_link *l);
void tcp_link_hang_up(struct tcp_link *l);
uint32_t
tcp_link_ack(const struct tcp_link *l); /* of an open link: seq of the peer's last received message */

/* Seconds since the peer's machine last answered, while an answer is due. Meant to be called about once a
 * second. */
double tcp_link_silence(int fd);
/* The same for a link that is still connecting, as the dialer last reported it; asks the dialer for another
 * report. */
double tcp_link_peer_silence(struct tcp_link *l);
double tcp_link_round_trip(int fd); /* seconds, the kernel's estimate; 0: unknown */

/* Index of `node` in cfg->address.peers, or -1 if it is not a peer. */
int tcp_peer_index(const struct tcp_config *cfg, int node);

#endif
