/* mesh -- the data plane: message transport between one node and the other nodes of its job.
 * Implementations: mesh_tcp (between processes and machines), mesh_sim (the simulator), mesh_mem
 * (tests/lib: nodes in one process).
 *
 * Every implementation guarantees:
 *   - Delivery: messages from one sender to one receiver arrive complete, exactly once and in the order
 *     sent, or the peer is reported as lost.
 *   - mesh_send never blocks. It returns ERR_REFUSED when MESH_QUEUE_MAX messages are queued for that peer.
 *   - Only mesh_poll and mesh_close wait, and only until their deadlines.
 *   - A broken connection is reestablished without an event. A peer that cannot be reached again is
 *     reported once, as MESH_LOST with the reason; a peer that closes its mesh is reported once, as
 *     MESH_LEFT. No message from that peer follows, and messages to it are dropped.
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

#include "agent/runner/mesh/frame.h"
#include "shared/err.h"

enum {
    MESH_QUEUE_MAX = 256,
    MESH_BACKLOG = 8, /* queued messages from which on a peer counts as not keeping up */
    MESH_REASON_MAX = 256,
    MESH_ALIGNMENT = 64
};

struct mesh_buf {
    int refs;
    size_t len;
    struct mesh_buf *next; /* in the pool or the send pool */
    unsigned char *bytes;  /* (mesh->limit), 64-byte aligned */
    bool is_slot;          /* bytes is a slot of the send pool: shared memory that peers read (send_pool.h) */
    bool is_withdrawn;     /* of a slot: a dropped peer may still read it, so it is never reused */
    struct mesh_buf *copy; /* of a message: its copy in a slot; of a slot: the original; NULL: none */
};

/* Size of a buffer for messages of at most `limit` bytes: a multiple of 64, greater than `limit`. */
static inline size_t mesh_buf_room(size_t limit)
{
    return (limit / MESH_ALIGNMENT + 1) * MESH_ALIGNMENT;
}

struct mesh_head {
    enum frame_kind kind; /* FRAME_CONTRIBUTION to FRAME_LOSS */
    int peer;             /* the receiving node (mesh_send) or the sending node (mesh_poll) */
    uint16_t channel;
    uint32_t index;
    uint64_t round;
};

struct mesh_event {
    enum mesh_event_kind { MESH_NOTHING, MESH_MESSAGE, MESH_LOST, MESH_LEFT } kind;
    struct mesh_head head;     /* MESH_LOST, MESH_LEFT: only `peer` is set */
    struct mesh_buf *buf;      /* MESH_MESSAGE: release with mesh_buf_put; NULL: a FRAME_CHUNK, in its sink */
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
};

struct mesh { /* the first member of each implementation's struct */
    const struct mesh_ops *ops;
    size_t limit; /* bytes of the longest payload except chunks; a longer one ends the peer */
    struct mesh_buf *pool;
    struct mesh_buf *send_pool; /* set after opening: free slots; mesh_close does not free them */
    struct mesh *pool_owner;    /* the mesh with the pool that nodes of one process share; NULL: own pool */
    mesh_sink *sink;            /* set after opening; NULL: a chunk ends its peer */
    void *owner;                /* first argument of `sink` */
    /* Set after opening: a peer that accepts no bytes for 10 s while messages are queued for it is lost. For
     * rules in which all nodes read continuously; in others a node may compute for long without reading. */
    bool drops_stalled;
    /* Set after opening, equal on all nodes: they run on one machine. There a message costs processor time,
     * and the nodes may share processors; between machines it costs network time. */
    bool is_one_machine;
};

/* Returns an empty buffer with one reference, or NULL if out of memory. */
struct mesh_buf *mesh_buf_take(struct mesh *m);
void mesh_buf_put(struct mesh *m, struct mesh_buf *b); /* drops one reference; NULL is allowed */
/* Returns the copy of message `b` in a send pool slot, with a reference for the caller. Makes the copy if
 * there is none or the message has grown. NULL: no slot is free. The message itself holds no reference to
 * its copy: messages queued for a hung peer occupy no slot. */
struct mesh_buf *mesh_buf_to_slot(struct mesh *m, struct mesh_buf *b);

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

/* Sends queued messages and returns the next event in *out. *out is MESH_NOTHING at the deadline
 * (clock_now; 0: do not wait), after a signal, when a queue became shorter, or when the descriptor of
 * mesh_watch is readable. ERR_IO: the mesh itself failed. */
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

/* Sends the queued messages and a BYE frame, waits until every peer has acknowledged it, and frees the
 * mesh. Messages unsent at the deadline are lost; so may be earlier ones that a peer has not received yet.
 * Views must stay valid until it returns; sinks of chunks need not. */
static inline void mesh_close(struct mesh *m, double deadline)
{
    m->ops->close(m, deadline);
}

void mesh_pool_clear(struct mesh *m); /* for implementations: frees all buffers in the pool */

#endif
