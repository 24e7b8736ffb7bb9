/* collective -- executes plans of collective operations (collective_plan.h) between the workers of a job,
 * chunk by chunk. Like the exchange, it never blocks: the caller passes in mesh events, and each call returns
 * whether the collective is done.
 *
 * A chunk is a message FRAME_CHUNK: its round is the number of the collective in this job, from 1, its index
 * counts the chunks from its sender to its receiver in that collective, its payload is raw items: floats, or
 * shorter numbers. It is sent by view, without a copy. A chunk to copy is read directly into `out`, a chunk
 * to add into a staging buffer of one chunk per sender. A chunk of the next collective, or a chunk whose
 * staging buffer is in use, remains in the connection. A chunk that the plan does not expect (its number,
 * index or length) is refused before its payload is read.
 *
 * With COLLECTIVE_MPI an all-reduce of floats over all nodes has no plan and no chunks: the mesh sums
 * (mesh_reduce), bucket by bucket. The rules about `in` and `out` hold as well, as no node has a sum before
 * all nodes have begun it. Other collectives have plans, with the algorithm of COLLECTIVE_AUTO. */
#ifndef PSGD_COLLECTIVE_H
#define PSGD_COLLECTIVE_H

#include "runner/base/stopwatch.h"
#include "runner/collective/collective_plan.h"
#include "runner/mesh/mesh.h"

enum {
    COLLECTIVE_CHUNK = 256 * 1024, /* bytes, unless mesh->chunk says otherwise; a larger one would leave the
                                    * second-level cache before it is added */
    COLLECTIVE_QUEUE = 32          /* most chunks queued in the mesh */
};

enum { COLLECTIVE_DONE = 0, COLLECTIVE_UNDER_WAY = 1 };

struct collective_config {
    int n_nodes, me;                     /* nodes 0 .. n_nodes-1 of the mesh */
    enum collective_algorithm algorithm; /* COLLECTIVE_MPI: of a mesh that reduces */
    /* Passes a chunk to the mesh by view: as mesh_send_view, but the owner keeps the error. */
    int (*send)(void *owner, const struct mesh_head *h, const void *bytes, size_t len);
    void (*received)(void *owner, int from, size_t len); /* a chunk of len bytes is processed */
    struct stopwatch *watch;                             /* in PHASE_DECODE while a chunk is added */
    void *owner;
};

/* The numbers of a vector, if they are not floats. */
struct collective_item {
    size_t bytes;
    /* out[i] = (in[0][i] + ... + in[n_in - 1][i]) * scale for i < n, added from the left, with n_in 2 or 3;
     * if items are rounded, so is each partial sum. `out` may be in[0]. */
    void (*sum)(const void *with, void *out, const void *const *in, int n_in, size_t n, float scale);
    const void *with; /* not owned */
};

struct collective_request {
    enum collective_kind kind;
    enum plan_levels levels; /* of an all-reduce */
    bool is_mean;            /* divide sums by the number of nodes */
    int root;
    const struct collective_item *item; /* of `in` and `out`, not owned. NULL: floats */
    const void *in;                     /* (n): must not change until this collective is done */
    void *out; /* (n): must not change until the next collective is done, so it cannot be that one's `out` */
    size_t n;
    /* `in` is complete from this index on; the values before follow, from the end to the front. */
    size_t ready;
    /* (n_buckets), as in plan_request; not owned, used until the next request of this kind. */
    const size_t *buckets;
    size_t n_buckets;
};

struct collective;

int collective_new(struct collective **out, const struct collective_config *cfg, struct err *e);
void collective_free(struct collective *c); /* after the mesh is closed: it may still send from it */
/* The mesh is not owned, nor are the `machines` of plan_request. */
void collective_attach(struct collective *c, struct mesh *m, const int *machines);

/* Sets linked[k] for each node k with which this node exchanges chunks in a collective of that kind, length
 * and items, on those levels, where workers are on these machines; before collective_attach. ERR_NOMEM. */
int collective_link(const struct collective *c, const struct collective_request *request, const int *machines,
                    bool *linked, struct err *e);

/* Begins a collective; none may be under way, and all nodes must begin the same. COLLECTIVE_DONE: it is
 * complete already. ERR_NOMEM: only if length or items differ from those of the last three collectives of
 * this kind. */
int collective_start(struct collective *c, const struct collective_request *request, struct err *e);
bool collective_is_under_way(const struct collective *c);
/* Has a peer begun the next collective, and is none under way here? Nothing that this peer has sent since is
 * received before that collective begins here, too. */
bool collective_is_awaited(const struct collective *c);
/* `in` of the collective under way is now complete from `ready` on: advances as far as possible. */
int collective_ready(struct collective *c, size_t ready, struct err *e);
/* Handles an event of the mesh while a collective is under way: a chunk, or any other event, because the
 * mesh's queue may have room again. */
int collective_on_event(struct collective *c, const struct mesh_event *ev, struct err *e);
uint64_t collective_summed(const struct collective *c); /* bytes of chunks added so far */
/* The node for whose chunk the collective under way waits, or -1: for none, or for a sum of the mesh; and the
 * same as text: "chunk 3 of node 1 in all-reduce 12". */
int collective_awaits(const struct collective *c);
void collective_waits_for(const struct collective *c, char *out, size_t size);
/* For mesh->sink. */
enum mesh_sink_result collective_sink(struct collective *c, const struct mesh_head *h, size_t len, void **at);

#endif
