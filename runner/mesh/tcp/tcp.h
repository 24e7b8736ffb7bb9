/* tcp -- types shared by the parts of mesh_tcp: a mesh and its peers. mesh_tcp.c implements mesh.h,
 * tcp_peer.c sends and receives the messages of one peer, tcp_open.c establishes and reestablishes
 * connections, tcp_link.c is the handshake of one connection. */
#ifndef PSGD_TCP_H
#define PSGD_TCP_H

#include "runner/mesh/tcp/tcp_link.h"
#include "runner/shm/send_pool.h"

enum {
    TCP_IN_FLIGHT_MAX = 256, /* messages sent and not acknowledged; later ones stay queued */
    TCP_STAGE_BYTES = 4096   /* read ahead, so that small messages take one system call */
};

/* Time in which a broken connection must be reestablished, and a silent machine must answer. A little under
 * 10 s, so that the loss is reported within 10 s. */
static const double TCP_TIMEOUT_S = 9.5;
/* Delay before the first reconnection attempt; doubles with each further one. */
static const double TCP_FIRST_PAUSE_S = 0.02;

struct tcp_message {
    struct mesh_head head;
    const unsigned char *bytes; /* (len) */
    size_t len;
    struct mesh_buf *buf; /* that holds `bytes`; NULL: the caller's bytes, or none */
    uint32_t crc;
    bool has_crc;
    bool is_descriptor; /* in the queue `bytes` is `descriptor`; before, the message in its slot */
    uint8_t descriptor[FRAME_DESCRIPTOR_BYTES];
};

/* The result of the last attempt to connect to one address of a peer. */
struct tcp_try {
    bool is_out; /* the peer is not there: all nodes listen before any connects */
    int error;   /* errno with which connecting failed; 0: it has not */
    char why[MESH_REASON_MAX];
};

struct tcp_peer {
    int node;
    enum { PEER_AWAITED, PEER_LINKED, PEER_GONE } state; /* awaited: not connected, or no longer */
    int fd;                                              /* -1: not connected */
    struct tls *tls;                                     /* on fd; NULL: not encrypted */
    bool has_left, is_writing, is_paused;
    bool is_local;              /* it runs on this machine */
    bool has_ended;             /* its port refuses connections: its process has ended */
    struct sealed mine, theirs; /* memory that the peer reads, that this node reads; empty: none */

    /* Sending. The queue holds the messages with seq `acked` + 1, + 2, ...: first `n_in_flight` sent ones,
     * kept until the peer acknowledges them, then `n_unsent` ones to send. */
    struct tcp_message queue[TCP_IN_FLIGHT_MAX + MESH_QUEUE_MAX + 1]; /* ring buffer; + 1 for the BYE */
    size_t first, n_in_flight, n_unsent;
    size_t n_descriptors; /* in the queue */
    uint32_t acked;
    uint32_t sent, received; /* seq of the last message completely sent on any connection; and acknowledged */
    enum { SENDS_NOTHING, SENDS_MESSAGE, SENDS_ACK } sends;
    uint8_t out[FRAME_BYTES];
    size_t n_out;        /* bytes of the current frame, header and payload, that are sent */
    bool has_progressed; /* bytes were sent since the last tcp_links_maintain */
    double stalled_s;    /* seconds in which none were, although messages are queued */

    /* Receiving. */
    size_t n_to_ack, bytes_to_ack; /* messages received and not yet acknowledged, and their bytes */
    uint8_t header[FRAME_BYTES];
    size_t n_header;
    struct frame frame;      /* once the header is complete */
    bool has_sink;           /* `into` is set for `sink_frame`; stays so when the connection breaks */
    struct frame sink_frame; /* while has_sink */
    bool is_duplicate;       /* `frame` was received before */
    bool is_drained;         /* the last read returned less than requested */
    size_t n_taken;          /* bytes read in this turn */
    unsigned char *into;     /* destination of the payload; NULL: discard it */
    size_t n_payload;
    uint32_t crc;         /* of these bytes */
    size_t n_partial;     /* bytes of an incomplete TLS record, when last checked */
    double partial_s;     /* seconds for which that number has not changed */
    struct mesh_buf *buf; /* NULL: the payload is a chunk */
    uint8_t descriptor[FRAME_DESCRIPTOR_BYTES];
    uint8_t stage[TCP_STAGE_BYTES];
    size_t stage_at, n_stage; /* bytes of `stage` not yet parsed */

    /* Connecting. */
    struct tcp_try tries[ADDRESSES_MAX]; /* of its link's places; the last attempt of each */
    int n_turns;                         /* how often all of them have been tried */

    /* Reconnection. */
    double linked_at, broken_at, lost_at, redial_at, pause;
    double round_trip; /* seconds, measured on the last connection */
    bool was_seen;     /* since broken_at its process has handled a connection: it is not just computing */
    char why[MESH_REASON_MAX];
};

struct tcp {
    struct mesh mesh;
    struct mesh_pool pool;
    struct send_pool *send_pool; /* NULL: none; not owned */
    struct tcp_config cfg;       /* a copy; listen_fd stays open */
    uint64_t job;
    /* Watches the peers' sockets (data.ptr: the peer), links_epoll (NULL) and watched_fd (this struct). */
    int epoll;
    int watched_fd; /* set by mesh_watch; -1: none */
    size_t n_peers, n_awaited;
    struct tcp_peer *peers; /* (n_peers), in cfg.address.peers' order */
    uint32_t *received;     /* (n_peers) seq of the last message received from each */
    size_t n_ended;         /* MESH_LOST and MESH_LEFT events to return */
    struct mesh_event *ended;
    double maintain_at, maintained_at; /* next and last time of tcp_links_maintain's work */
    size_t turn;                       /* index of the peer whose staged messages are next */
    int n_staged;                      /* staged messages returned since the last epoll_wait */
    double spin_s;                     /* for which mesh_poll spins before it sleeps */
    bool is_open, is_closing;
    bool has_lacked_files; /* a connection could not be accepted; logged once */

    int links_epoll; /* watches links (data.ptr: the link) and the listening socket (NULL) */
    size_t n_links;
    struct tcp_link *links; /* [0, n_peers): to each peer; then accepted ones; fd -1: free */
};

/* tcp_peer.c */

void tcp_peer_watch(struct tcp *t, struct tcp_peer *p, bool writing, bool paused);
/* Queues the message and takes a reference of its buffer. At most MESH_QUEUE_MAX unsent messages and a
 * BYE. */
void tcp_peer_enqueue(struct tcp *t, struct tcp_peer *p, const struct tcp_message *m);
/* Sends until the queue is empty, the socket buffer is full, or about `budget` bytes are sent. */
void tcp_peer_flush(struct tcp *t, struct tcp_peer *p, size_t budget);
/* Reads available bytes up to the end of a message or of the peer's turn. Returns true if *out is a complete
 * message. */
bool tcp_peer_receive(struct tcp *t, struct tcp_peer *p, struct mesh_event *out);
/* Whether tcp_peer_receive can continue with buffered bytes, without reading the socket. */
bool tcp_peer_has_staged(const struct tcp_peer *p);
/* Uses an authenticated connection for the peer's messages from now on; takes ownership of fd and tls.
 * `ack`: seq of the last message that the peer has received. */
void tcp_peer_adopt(struct tcp *t, struct tcp_peer *p, int fd, struct tls *tls, uint32_t ack);
/* Closes the broken connection; the peer is lost unless a new one is established within `timeout` seconds. */
void tcp_peer_break(struct tcp *t, struct tcp_peer *p, double timeout, const char *why);
/* Ends the peer for good; a later mesh_poll reports it with this reason. */
void tcp_peer_drop(struct tcp *t, struct tcp_peer *p, const char *why);

/* tcp_open.c */

/* Connects to every peer until cfg.spec.deadline, at one of the addresses of its name: each is tried in turn,
 * for 1 s, then 2, 4, ..., so that an address that does not answer delays the next one only a little. A
 * single address is tried until the deadline. The message names each address with its error. Errors as
 * mesh_open. */
int tcp_links_open(struct tcp *t, struct err *e);
/* Handles one ready link, and returns 1; 0: none is ready. Errors: only while opening, when a peer cannot be
 * reached for good. */
int tcp_links_serve(struct tcp *t, struct err *e);
/* Times out handshakes, connects to awaited peers, ends peers that are lost, and detects silent ones. */
int tcp_links_maintain(struct tcp *t, double now, struct err *e);

#endif
