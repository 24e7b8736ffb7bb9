/* mesh -- the data plane: message transport between one node and the other nodes of its job.
 * Implementations: mesh_tcp (between processes and machines), mesh_mpi (between processes of MPI, in an
 * object of its own), mesh_sim (the simulator), mesh_mem (tests/lib: nodes in one process).
 *
 * Every implementation guarantees:
 *   - Delivery: messages from one sender to one receiver arrive complete, exactly once and in the order
 *     sent, or the peer is reported as lost.
 *   - mesh_send never blocks. It returns ERR_REFUSED when MESH_QUEUE_MAX messages are queued for that peer.
 *   - Only mesh_poll and mesh_close wait, and only until their deadlines.
 *   - A broken connection is reestablished without an event. A peer that cannot be reached again is
 *     reported once, as MESH_LOST with the reason (without transport_traits.reports_loss only one that has
 *     sent an invalid message); a peer that closes its mesh is reported once, as MESH_LEFT. No message from
 *     that peer follows, and messages to it are dropped.
 *   - Lengths, indices and addresses from a peer are checked against this node's own configuration before
 *     use.
 *
 * Not thread-safe: one thread per mesh. A payload is a mesh_buf, a reference-counted buffer from a pool:
 * one encoded contribution goes to many peers without copies, and rounds allocate nothing once the pool has
 * grown. */
#ifndef PSGD_MESH_H
#define PSGD_MESH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runner/mesh/frame.h"
#include "shared/base/err.h"
#include "shared/base/flag.h"
#include "shared/job/transport_kinds.h"

enum {
    MESH_QUEUE_MAX = 256,
    MESH_BACKLOG = 8, /* a peer with so many queued messages counts as too slow */
    MESH_REASON_MAX = 256,
    MESH_ALIGNMENT = 64,
    MESH_REDUCE_MAX = 8,            /* sums of mesh_reduce under way */
    MESH_REDUCE_LONGEST = 64 << 20, /* numbers of one */
};

struct mesh_buf {
    int refs;
    size_t len;
    unsigned char *bytes;   /* (the pool's limit), 64-byte aligned */
    struct mesh_pool *pool; /* to which its last reference returns it; NULL: to none */
    struct mesh_buf *next;  /* in the pool */
    uint64_t n_uses;        /* how often it was taken: with the buffer, it identifies a message */
};

struct mesh_pool {
    size_t limit; /* bytes of the longest message */
    struct mesh_buf *free;
};

/* Size of a buffer for messages of at most `limit` bytes: a multiple of 64, greater than `limit`. */
static inline size_t mesh_buf_room(size_t limit)
{
    return (limit / MESH_ALIGNMENT + 1) * MESH_ALIGNMENT;
}

struct mesh_head {
    enum frame_kind kind; /* FRAME_CONTRIBUTION to FRAME_PART */
    int peer;             /* the receiving node (mesh_send) or the sending node (mesh_poll) */
    uint16_t channel;
    uint32_t index;
    uint64_t round;
};

struct mesh_event {
    enum mesh_event_kind { MESH_NOTHING, MESH_MESSAGE, MESH_LOST, MESH_LEFT } kind;
    struct mesh_head head; /* MESH_LOST, MESH_LEFT: only `peer` is set */
    struct mesh_buf *buf;  /* MESH_MESSAGE: release with mesh_buf_put; NULL: a FRAME_CHUNK, see mesh_sink */
    char why[MESH_REASON_MAX]; /* MESH_LOST: the reason, as text */
};

/* Chooses the destination buffer of a FRAME_CHUNK. The mesh calls it once per chunk, after the header
 * arrived.
 *   MESH_SINK_READY: *at is set to the `len` bytes that the payload will fill. Their contents are undefined
 *     until the event for this chunk.
 *   MESH_SINK_LATER: the mesh reads neither this chunk nor later messages of that peer until
 *     mesh_pause(m, h->peer, false), and then calls again.
 *   MESH_SINK_REFUSED: the chunk is invalid; the peer is reported as MESH_LOST.
 * Not called during mesh_close. */
enum mesh_sink_result { MESH_SINK_READY, MESH_SINK_LATER, MESH_SINK_REFUSED };
typedef enum mesh_sink_result mesh_sink(void *owner, const struct mesh_head *h, size_t len, void **at);

/* Maps node ids (workers 0, 1, ..., servers -2, -3, ...) to indices 0, 1, ... over all nodes of a job. */
static inline int mesh_slot(int n_workers, int node)
{
    return node >= 0 ? node : n_workers - 2 - node;
}

/* The inverse of mesh_slot. */
static inline int mesh_node_at(int n_workers, int slot)
{
    return slot < n_workers ? slot : n_workers - 2 - slot;
}

struct mesh;

/* How a node opens its mesh. */
struct mesh_spec {
    const struct mesh_transport *transport;
    const void *address; /* for this transport only: mesh_tcp has a struct mesh_tcp_address; not copied */
    int node;
    size_t limit;    /* bytes of the longest payload except chunks */
    double deadline; /* clock_now: for all connections to be established */
    /* A peer that accepts no bytes for 10 s while messages are queued for it is lost. For rules in which all
     * nodes read continuously; in others a node may compute for long without reading. */
    bool drops_stalled;
    /* Set by a signal handler: opening fails with ERR_CANCELLED, closing waits for peers at most
     * mesh_closes_until(). Must outlive the mesh. */
    const atomic_bool *interrupted;
};

/* The transports between processes that are linked. tests/suite/test_mesh.c runs each of them, and passes a
 * struct mesh_tcp_address; a transport with other addresses needs a function in tests/lib/mesh_nodes.c that
 * makes them. node_connect.c chooses that of a job. */
#define MESH_TRANSPORTS(TRANSPORT) TRANSPORT(mesh_tcp)

struct mesh_transport {
    const struct transport_traits *traits;
    bool shares_messages; /* nodes of one machine may pass them in memory (mesh_tcp_attach and the like) */
    int (*open)(struct mesh **out, const struct mesh_spec *spec, struct err *e);
};

#define TRANSPORT(transport) extern const struct mesh_transport transport;
MESH_TRANSPORTS(TRANSPORT)
#undef TRANSPORT

struct mesh_ops {
    /* b: the buffer that holds `bytes`; NULL for a view */
    int (*send)(struct mesh *m, const struct mesh_head *h, const void *bytes, size_t len, struct mesh_buf *b,
                struct err *e);
    int (*poll)(struct mesh *m, struct mesh_event *out, double deadline, struct err *e);
    size_t (*queued)(const struct mesh *m);
    size_t (*queued_for)(const struct mesh *m, int node);
    void (*pause)(struct mesh *m, int node, bool on);
    void (*drop)(struct mesh *m, int node, const char *why);
    void (*close)(struct mesh *m, double deadline);
    bool (*is_local)(const struct mesh *m, int node);
    int (*watch)(struct mesh *m, int fd, struct err *e);
    int (*descriptor)(const struct mesh *m); /* NULL: there is none */
    /* NULL, both, without transport_traits.reduces */
    int (*reduce)(struct mesh *m, const float *in, float *out, size_t n, struct err *e);
    size_t (*reducing)(const struct mesh *m);
};

struct mesh { /* the first member of each implementation's struct */
    const struct mesh_ops *ops;
    struct mesh_pool *pool; /* nodes of one process may share it; a payload beyond its limit, except a chunk,
                             * ends the peer */
    mesh_sink *sink;        /* set after opening; NULL: a chunk ends its peer */
    void *owner;            /* first argument of `sink` */
    size_t chunk;           /* bytes of a FRAME_CHUNK that suit the transport, on all nodes; 0: any */
    int n_processors;       /* that the nodes of this machine may use together; 0: not known */
};

/* Returns when this node is connected to all its peers. Errors: see the transport. */
static inline int mesh_open(struct mesh **out, const struct mesh_spec *spec, struct err *e)
{
    return spec->transport->open(out, spec, e);
}

/* Returns an empty buffer with one reference, or NULL if out of memory. */
struct mesh_buf *mesh_buf_take(struct mesh *m);
void mesh_buf_put(struct mesh_buf *b); /* drops one reference; NULL is allowed */

/* Queues `b` for h->peer and takes its own reference. ERR_REFUSED: that peer's queue is full. */
static inline int mesh_send(struct mesh *m, const struct mesh_head *h, struct mesh_buf *b, struct err *e)
{
    return m->ops->send(m, h, b->bytes, b->len, b, e);
}

/* As mesh_send, without a copy: the caller keeps `bytes` valid and unchanged until the peer has received
 * them, which the caller learns from the peer's later messages. */
static inline int mesh_send_view(struct mesh *m, const struct mesh_head *h, const void *bytes, size_t len,
                                 struct err *e)
{
    return m->ops->send(m, h, bytes, len, NULL, e);
}

/* Begins a sum over all nodes: out = the sum of their `in`, (n), 0 < n <= MESH_REDUCE_LONGEST. All nodes
 * begin the same sums in the same order, at most MESH_REDUCE_MAX before the first is complete. Until then
 * neither vector may be used. For transports that reduce, in a job whose nodes are all workers. ERR_IO. */
static inline int mesh_reduce(struct mesh *m, const float *in, float *out, size_t n, struct err *e)
{
    return m->ops->reduce(m, in, out, n, e);
}

/* The number of sums that are under way; the oldest is complete when there is one fewer, which changes only
 * in mesh_poll. */
static inline size_t mesh_reducing(const struct mesh *m)
{
    return m->ops->reducing(m);
}

/* Sends queued messages and returns the next event in *out. *out is MESH_NOTHING at the deadline
 * (clock_now; 0: do not wait), after a signal, when a queue became shorter, when a sum is complete, or when
 * the descriptor of mesh_watch is readable. ERR_IO: the mesh itself failed. */
static inline int mesh_poll(struct mesh *m, struct mesh_event *out, double deadline, struct err *e)
{
    return m->ops->poll(m, out, deadline, e);
}

/* Length of the longest queue of unsent messages over all peers. */
static inline size_t mesh_queued(const struct mesh *m)
{
    return m->ops->queued(m);
}

/* Length of the queue of unsent messages for `node`. */
static inline size_t mesh_queued_for(const struct mesh *m, int node)
{
    return m->ops->queued_for(m, node);
}

/* While on, no message is received from that node; flow control then stops the sender. */
static inline void mesh_pause(struct mesh *m, int node, bool on)
{
    m->ops->pause(m, node, on);
}

/* Drops a peer that sent an invalid message: no message is received from it or sent to it any more, and a
 * later mesh_poll reports it as MESH_LOST with this reason. */
static inline void mesh_drop(struct mesh *m, int node, const char *why)
{
    m->ops->drop(m, node, why);
}

/* Whether that node runs on this machine, judged by its address. */
static inline bool mesh_is_local(const struct mesh *m, int node)
{
    return m->ops->is_local(m, node);
}

/* Makes mesh_poll also return, with MESH_NOTHING, when this descriptor is readable. One descriptor at a
 * time; -1 removes it, which must happen before it is closed. */
static inline int mesh_watch(struct mesh *m, int fd, struct err *e)
{
    return m->ops->watch(m, fd, e);
}

/* For poll(2): readable when mesh_poll has something to do; also call that about once a second. -1: there is
 * none, as in one process. */
static inline int mesh_descriptor(const struct mesh *m)
{
    return m->ops->descriptor ? m->ops->descriptor(m) : -1;
}

/* Sends the queued messages and a BYE frame, waits until every peer has acknowledged it, and frees the
 * mesh. Messages unsent at the deadline are lost; so may be earlier ones that a peer has not received yet.
 * Views, sinks of chunks that have begun to arrive, and vectors of sums under way must stay valid until it
 * returns. */
static inline void mesh_close(struct mesh *m, double deadline)
{
    m->ops->close(m, deadline);
}

/* For implementations. Of closing, the deadline, or a second from now if the node is interrupted: peers may
 * need the messages that are queued to end well. */
double mesh_closes_until(const struct mesh_spec *spec, double deadline);
/* For implementations. Removes a free buffer of the pool and returns it with one reference; NULL: none. */
struct mesh_buf *mesh_pool_pop(struct mesh_pool *pool);
void mesh_pool_clear(struct mesh_pool *pool); /* frees the buffers that mesh_buf_take has made */

#endif
