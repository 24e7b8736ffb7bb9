/* tcp -- what the parts of mesh_tcp share: a mesh and its peers. mesh_tcp.c keeps the contract, tcp_peer.c
 * is one peer's messages in both directions, tcp_open.c makes and re-makes the connections they go through,
 * tcp_link.c is such a connection before it carries messages. */
#ifndef PSGD_TCP_H
#define PSGD_TCP_H

#include "agent/runner/mesh/tcp/tcp_link.h"
#include "agent/runner/shm/send_pool.h"

enum {
    TCP_KEPT_MAX = 256,    /* messages sent and not acknowledged; more wait */
    TCP_STAGE_BYTES = 4096 /* read with what was asked for, so that small messages take one call */
};

/* For a broken connection to be made again, and for a silent machine to answer. A little under 10 s, so that
 * within 10 s people read of it. */
static const double TCP_PATIENCE_S = 9.5;
/* Before a peer is dialled again; twice as long each time. */
static const double TCP_FIRST_PAUSE_S = 0.02;

struct tcp_message {
    struct mesh_head head;
    const unsigned char *bytes; /* (len) */
    size_t len;
    struct mesh_buf *buf; /* whose they are; NULL: the caller's, or none */
    uint32_t crc;
    bool has_crc;
    bool is_descriptor; /* in the queue `bytes` are this slip, elsewhere what it will speak of */
    uint8_t descriptor[FRAME_DESCRIPTOR_BYTES];
};

struct tcp_peer {
    int node;
    enum { PEER_AWAITED, PEER_LINKED, PEER_GONE } state; /* awaited: has no connection, or no longer */
    int fd;                                              /* -1: not linked */
    struct tls *tls;                                     /* around fd; NULL: none */
    bool has_left, is_writing, is_paused, is_near;
    bool has_ended;             /* nobody listens for it any more: its process is gone */
    struct sealed mine, theirs; /* that the peer reads, and that this node reads of it; empty: nothing */

    /* Out. The queue holds letters `acked` + 1, + 2, ...: first those sent and kept until the peer says
     * that it has them, then those to send. */
    struct tcp_message queue[TCP_KEPT_MAX + MESH_QUEUE_MAX + 1]; /* ring; one place for the good-bye */
    size_t first, n_kept, n_unsent;
    size_t n_descriptors; /* of them */
    uint32_t acked;
    enum { SENDS_NOTHING, SENDS_MESSAGE, SENDS_ACK } sends;
    uint8_t out[FRAME_BYTES];
    size_t n_out;   /* bytes of the frame being sent, header and payload, that are out */
    bool has_moved; /* bytes went out since the connections were last looked after */
    double stuck_s; /* for how long none has, although something waits */

    /* In. */
    size_t n_unacked, unacked_bytes; /* messages and their bytes that the peer does not know to be heard */
    uint8_t header[FRAME_BYTES];
    size_t n_header;
    struct frame frame;  /* once the header is in */
    bool is_placed;      /* it is known where the payload goes, also after a break */
    struct frame placed; /* while is_placed: the frame it is known of */
    bool is_double;      /* `frame` has been heard before */
    bool is_drained;     /* the last call gave less than was asked for */
    size_t n_taken;      /* bytes in this turn */
    unsigned char *into; /* NULL: nowhere */
    size_t n_payload;
    uint32_t crc;         /* of those bytes */
    size_t n_half;        /* of TLS, when it was last looked at: bytes of a record that is not whole */
    double half_s;        /* for how long they have been the same */
    struct mesh_buf *buf; /* NULL: a piece's */
    uint8_t descriptor[FRAME_DESCRIPTOR_BYTES];
    uint8_t stage[TCP_STAGE_BYTES];
    size_t stage_at, n_stage; /* read and not yet looked at */

    /* While there is no connection. */
    double linked_at, broken_at, lost_at, redial_at, pause;
    double round_trip; /* seconds, of its last connection */
    bool was_seen; /* since broken_at its process has looked at a connection: it does not merely compute */
    char why[MESH_WHY];
};

struct tcp {
    struct mesh mesh;
    struct mesh_tcp_config cfg; /* a copy; listen_fd stays open */
    uint64_t job;
    /* Of the peers' sockets, of links_epoll, and of watched_fd: data.ptr is the peer, NULL, this mesh. */
    int epoll;
    int watched_fd; /* of mesh_watch; -1: none */
    size_t n_peers, n_awaited;
    struct tcp_peer *peers; /* (n_peers), in cfg.peers' order */
    uint32_t *received;     /* (n_peers) seq of the last message heard of each */
    size_t n_news;          /* peers whose end is to be told */
    struct mesh_event *news;
    double care_at, cared_at; /* when to look after the connections again, and when that was last done */
    size_t turn;              /* the peer whose staged messages are next */
    int n_staged;             /* of those that were handed out since sockets were asked */
    bool is_open, is_closing;

    int links_epoll; /* of links and the listening socket: data.ptr is the link, NULL for it */
    size_t n_links;
    struct tcp_link *links; /* [0, n_peers): dialled; behind them: accepted; fd -1: free */
};

/* tcp_peer.c */

void tcp_peer_watch(struct tcp *t, struct tcp_peer *p, bool writing, bool paused);
/* Takes a reference of the letter's buffer. At most MESH_QUEUE_MAX may wait, and a good-bye behind them. */
void tcp_peer_enqueue(struct tcp *t, struct tcp_peer *p, const struct tcp_message *l);
/* Sends until there is nothing to send, the kernel takes no more, or about `budget` bytes are out. */
void tcp_peer_flush(struct tcp *t, struct tcp_peer *p, size_t budget);
/* Reads what has come, to the end of a message or of the peer's turn; true: *out is the message that is
 * complete. */
bool tcp_peer_receive(struct tcp *t, struct tcp_peer *p, struct mesh_event *out);
/* Could tcp_peer_receive go on without the socket? */
bool tcp_peer_has_staged(const struct tcp_peer *p);
/* A connection whose ends know each other carries the messages from here on; takes fd and tls. `ack`: the
 * last one the peer has heard. */
void tcp_peer_adopt(struct tcp *t, struct tcp_peer *p, int fd, struct tls *tls, uint32_t ack);
/* The connection is no good; without another until `patience` seconds from now the peer is lost. */
void tcp_peer_break(struct tcp *t, struct tcp_peer *p, double patience, const char *why);
/* The peer's part is over; the next poll tells why. */
void tcp_peer_drop(struct tcp *t, struct tcp_peer *p, const char *why);

/* tcp_open.c */

/* Links every peer, until cfg.deadline. Errors as mesh_tcp_open. */
int tcp_links_open(struct tcp *t, struct err *e);
/* What is ready among the links. ERR_*: only while opening, when a peer refuses for good. */
int tcp_links_serve(struct tcp *t, struct err *e);
/* Gives up what takes too long, dials what is due, ends what is gone too long, looks for silent peers. */
int tcp_links_care(struct tcp *t, double now, struct err *e);

#endif
