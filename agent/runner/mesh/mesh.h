/* mesh -- the data plane: one node's links to the other nodes of its job. Implementations: mesh_tcp (between
 * processes and machines), mesh_mem (tests/lib: nodes in one process).
 *
 * Contract, for every implementation:
 *   - messages of one sender to one receiver arrive whole, once, in the order sent, or the peer is lost;
 *   - mesh_send never blocks; it refuses beyond MESH_QUEUE_MAX messages waiting for one peer (ERR_REFUSED);
 *   - waiting happens in mesh_poll and nowhere else, and only until its deadline;
 *   - a connection that breaks is made again, and nobody notices; a peer that cannot be reached again is
 *   reported once, as MESH_LOST with the reason; one that says good-bye, as MESH_LEFT. Nothing comes from it
 *   afterwards, and messages to it are dropped;
 *   - no length, index or address from a peer is believed before it is compared with what this node knows.
 *
 * One thread. A message's payload is a mesh_buf: counted references, taken from a pool, so that one encoded
 * word goes to many peers without copies and rounds allocate nothing once the pool has grown. */
#ifndef PSGD_MESH_H
#define PSGD_MESH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/runner/mesh/frame.h"
#include "shared/err.h"

enum {
    MESH_QUEUE_MAX = 256,
    MESH_BEHIND = 8, /* messages that wait for a peer which does not keep up */
    MESH_WHY = 256,
    MESH_ALIGNMENT = 64
};

struct mesh_buf {
    int refs;
    size_t len;
    struct mesh_buf *next; /* in the pool, or on the shelf */
    unsigned char *bytes;  /* mesh->limit of them, 64-byte aligned */
    bool is_slot;          /* they lie in memory that peers read (send_pool.h) */
    bool is_withdrawn;     /* then: one that was given up may still read there; it goes to no shelf again */
    struct mesh_buf *copy; /* the same message on the shelf, and there the original; NULL: none */
};

/* Bytes of a buffer for messages of at most `limit`, from one multiple of 64 to another. */
static inline size_t mesh_buf_room(size_t limit)
{
    return (limit / MESH_ALIGNMENT + 1) * MESH_ALIGNMENT;
}

struct mesh_head {
    enum frame_kind kind; /* FRAME_CONTRIBUTION to FRAME_LOSS */
    int peer;             /* node it goes to, or comes from */
    uint16_t channel;
    uint32_t index;
    uint64_t round;
};

struct mesh_event {
    enum mesh_what { MESH_NOTHING, MESH_MESSAGE, MESH_LOST, MESH_LEFT } kind;
    struct mesh_head head; /* MESH_LOST, MESH_LEFT: only peer */
    struct mesh_buf *buf;  /* MESH_MESSAGE: the receiver puts it back; NULL for a piece: it is in its place */
    char why[MESH_WHY];    /* MESH_LOST: for people */
};

/* Asked once for each FRAME_CHUNK whose header is in: sets *at to the `len` bytes its payload shall fill
 * (MESH_HERE); leaves it, and what its sender sends behind it, unread until mesh_pause(m, h->peer, false)
 * (MESH_LATER; then asked again); or calls the peer broken (MESH_WRONG). Until the event for it comes, the
 * bytes may hold anything. A mesh that is being closed asks no more. */
enum mesh_where { MESH_HERE, MESH_LATER, MESH_WRONG };
typedef enum mesh_where mesh_sink(void *owner, const struct mesh_head *h, size_t len, void **at);

/* The place of a node among all of a job, and who has that place: workers 0, 1, ..., servers -2, -3 ... */
static inline int mesh_slot(int n_workers, int node)
{
    return node >= 0 ? node : n_workers - 2 - node;
}

static inline int mesh_node_at(int n_workers, int slot)
{
    return slot < n_workers ? slot : n_workers - 2 - slot;
}

struct mesh;
struct mesh_ops {
    /* b: whose bytes they are, NULL for a view */
    int (*send)(struct mesh *m, const struct mesh_head *h, const void *bytes, size_t len, struct mesh_buf *b,
                struct err *e);
    int (*poll)(struct mesh *m, struct mesh_event *out, double deadline, struct err *e);
    size_t (*queued)(const struct mesh *m);
    size_t (*queued_for)(const struct mesh *m, int node);
    void (*pause)(struct mesh *m, int node, bool on);
    void (*drop)(struct mesh *m, int node, const char *why);
    void (*close)(struct mesh *m, double deadline);
    bool (*is_near)(const struct mesh *m, int node);
    int (*watch)(struct mesh *m, int fd, struct err *e);
};

struct mesh { /* the common part; implementations put theirs behind it */
    const struct mesh_ops *ops;
    size_t limit; /* bytes of the longest payload but a piece's; a longer one is a broken peer */
    struct mesh_buf *pool;
    struct mesh_buf
        *send_pool; /* set after opening: places for copies of what is sent; mesh_close leaves them */
    struct mesh *pool_owner; /* whose pool is used, where nodes of one process share one; NULL: its own */
    mesh_sink *sink;         /* set after opening; without one a piece is a broken peer */
    void *owner;             /* its first argument */
    /* Set after opening: a peer that takes nothing for 10 s, although messages wait for it, is lost. For
     * rules in which everybody reads all the time; elsewhere one may compute for long without reading. */
    bool ends_stuck;
    /* Set after opening, alike on all nodes: they run on one machine, where a message costs time of
     * processors that they may share; between machines it costs time on the way. */
    bool is_one_machine;
};

/* An empty buffer with one reference, or NULL without memory. */
struct mesh_buf *mesh_buf_take(struct mesh *m);
void mesh_buf_put(struct mesh *m, struct mesh_buf *b); /* gives one reference back; NULL is fine */
/* The copy of a message that is on the shelf, made when there is none, or the message has become longer; with
 * a reference of the caller's. NULL: there is no place. The message itself holds none: one that waits for a
 * peer which hangs keeps no place from the others. */
struct mesh_buf *mesh_buf_to_slot(struct mesh *m, struct mesh_buf *b);

/* Queues `b` for h->peer and takes a reference of its own. ERR_REFUSED: too much is waiting for that peer. */
static inline int mesh_send(struct mesh *m, const struct mesh_head *h, struct mesh_buf *b, struct err *e)
{
    return m->ops->send(m, h, b->bytes, b->len, b, e);
}

/* As mesh_send, of bytes that stay the caller's: they must not change until the peer has taken them, which it
 * says itself by what it sends next. */
static inline int mesh_send_view(struct mesh *m, const struct mesh_head *h, const void *bytes, size_t len,
                                 struct err *e)
{
    return m->ops->send(m, h, bytes, len, NULL, e);
}

/* Sends what waits and returns the next event, or MESH_NOTHING at the deadline (clock_now; 0: do not wait),
 * after a signal, or when a queue has become shorter. ERR_IO: the mesh itself failed. */
static inline int mesh_poll(struct mesh *m, struct mesh_event *out, double deadline, struct err *e)
{
    return m->ops->poll(m, out, deadline, e);
}

/* Messages that wait to be sent to the peer for which most are waiting. */
static inline size_t mesh_queued(const struct mesh *m)
{
    return m->ops->queued(m);
}

static inline size_t mesh_queued_for(const struct mesh *m, int node)
{
    return m->ops->queued_for(m, node);
}

/* While on, nothing is taken from that node: what it sends waits, and soon it does. */
static inline void mesh_pause(struct mesh *m, int node, bool on)
{
    m->ops->pause(m, node, on);
}

/* For a peer that says what no rule can use: nothing more is taken from it or sent to it, and a poll reports
 * it as lost, for this reason. */
static inline void mesh_drop(struct mesh *m, int node, const char *why)
{
    m->ops->drop(m, node, why);
}

/* Does that node run on this machine, as far as its address tells? */
static inline bool mesh_is_near(const struct mesh *m, int node)
{
    return m->ops->is_near(m, node);
}

/* A poll returns, with MESH_NOTHING, also when this descriptor can be read: one at a time, -1 for none, and
 * none that is closed. */
static inline int mesh_watch(struct mesh *m, int fd, struct err *e)
{
    return m->ops->watch(m, fd, e);
}

/* Sends what is queued, says good-bye, waits until every peer has heard it, and frees the mesh. What is
 * unsent at the deadline is lost, and a peer that still had words to hear may lose them with it. Views must
 * live until it has returned; the places of pieces need not. */
static inline void mesh_close(struct mesh *m, double deadline)
{
    m->ops->close(m, deadline);
}

void mesh_pool_clear(struct mesh *m); /* for implementations: frees the buffers that are back */

#endif
