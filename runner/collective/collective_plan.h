/* collective_plan -- which node sends what to which node in one collective operation: a pure function of the
 * operation, the algorithm, the number of nodes, the vector's length and the longest chunk. Nothing is sent
 * here; collective.c executes a plan, a test runs it in a naive interpreter.
 *
 *   all-reduce       out = sum over nodes of in, the same bits on every node
 *   reduce-scatter   slice me of out = that sum; the rest of out is undefined afterwards
 *   all-gather       slice k of out = slice k of node k's in
 *   broadcast        out = the root's in
 *   all-to-all       slice k of out = slice me of node k's in; n is a multiple of n_nodes
 *
 * A vector's slices differ by at most one number: collective_slice(). A range's chunks go from its end to its
 * front, the order in which a gradient is computed.
 *
 * A receiver gets the chunks of one sender in the order sent. Chunks are processed in the order of `recvs`,
 * independent of the order in which they arrive, so the order of summation does not depend on timing. A send
 * begins when the first plan_send.after chunks of `recvs` have been processed; there are no other
 * dependencies. A range without numbers is sent as one empty chunk, so these two statements hold for every
 * plan and n.
 *
 *   1. A node that has finished has received chunks, directly or through others, from every node: all have
 *   begun this collective and finished the previous one, and every chunk of the previous one has arrived.
 *   2. When a node has finished, every chunk that it has sent from IN has arrived, so IN may be overwritten.
 *   If the chunks that it receives do not prove that, it sends from a copy, PLAN_KEPT.
 *
 * So codec_events.h can promise: `in` is free when a collective is done, `out` when the next one is done.
 *
 * The algorithms of an all-reduce, of the vector or of one bucket after the other (both statements hold for
 * each), are in shared/job/allreduce_kinds.h. They run between all nodes, or on two levels: the nodes of each
 * machine send their vectors to the machine's first node, an algorithm runs between these, and each sends the
 * result back. */
#ifndef PSGD_COLLECTIVE_PLAN_H
#define PSGD_COLLECTIVE_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shared/base/err.h"
#include "shared/job/settings.h"

enum collective_kind {
    COLLECTIVE_ALL_REDUCE,
    COLLECTIVE_REDUCE_SCATTER,
    COLLECTIVE_ALL_GATHER,
    COLLECTIVE_BROADCAST,
    COLLECTIVE_ALL_TO_ALL,
    COLLECTIVE_KINDS
};

enum plan_levels {
    PLAN_FLAT,       /* between all nodes, independent of their machines */
    PLAN_TWO_LEVELS, /* inside each machine, and between the first nodes of the machines */
    PLAN_BETWEEN,    /* between the first nodes only; for the others the two statements do not hold */
};

struct plan_request {
    enum collective_kind kind;
    enum collective_algorithm algorithm; /* of an all-reduce; the other operations have one each */
    enum plan_levels levels;             /* of an all-reduce; on two, `direct` is `circulant` */
    int n_nodes, me;
    int root;          /* of a broadcast */
    size_t n;          /* numbers in `in` and in `out` */
    size_t item_bytes; /* of a number; COLLECTIVE_AUTO depends on it */
    /* (n_nodes): for each node the first one on its machine; NULL: each node has its own. COLLECTIVE_AUTO
     * depends on it. Not owned. */
    const int *machines;
    size_t chunk; /* numbers in the longest chunk, at least n / INT_MAX + 1 */
    /* All-reduce: starts of the buckets, which are summed one after another, from the vector's end to its
     * front; the last is 0. Not owned. None: the whole vector is one bucket. */
    const size_t *buckets;
    size_t n_buckets;
};

enum plan_vector { PLAN_IN, PLAN_OUT, PLAN_KEPT };

/* The operation on a received chunk x, on its range. */
enum plan_op {
    PLAN_COPY,       /* out = x; x may be stored there as soon as it arrives */
    PLAN_ADD,        /* out = out + x */
    PLAN_ADD_TO_IN,  /* out = in + x */
    PLAN_ADD_AND_IN, /* out = (out + x) + in */
    PLAN_OPS
};

/* A local copy, before anything else: to = in, on a range. */
struct plan_copy {
    enum plan_vector to;
    size_t first, n;
};

struct plan_send {
    int to;
    uint32_t index; /* among the chunks to that node, from 0 */
    enum plan_vector vector;
    size_t first, n;
    size_t after; /* number of chunks that must be processed before */
};

struct plan_recv {
    int from;
    int peer; /* its index in `peers` */
    enum plan_op op;
    bool is_sum; /* the result is the sum over all nodes: a mean divides it now */
    size_t first, n;
    size_t next; /* index of the next chunk of the same sender; n_recvs: there is none */
};

/* A node with which chunks are exchanged: few of the nodes of a large job. */
struct plan_peer {
    int node;
    size_t first;  /* index of its first chunk in recvs; n_recvs: there is none */
    uint32_t sent; /* chunks to it */
};

struct collective_plan { /* {0} is an empty one */
    struct plan_request request;
    struct plan_copy copies[2];
    size_t n_copies, n_sends, n_recvs, n_peers;
    struct plan_send *sends;
    struct plan_recv *recvs;
    struct plan_peer *peers; /* by node */
    size_t sends_room, recvs_room, peers_room;
};

/* Makes a new plan in p, reusing its memory. ERR_NOMEM. */
int collective_plan_make(struct collective_plan *p, const struct plan_request *request, struct err *e);
void collective_plan_clear(struct collective_plan *p);
/* The index of a node in p->peers; -1: no chunks are exchanged with it. */
int collective_plan_peer(const struct collective_plan *p, int node);
/* Sets linked[k] for each node k that this one sends to or receives from in that operation; the others stay
 * as they are. Of two nodes either both set the other or neither. ERR_NOMEM. */
int collective_plan_link(bool *linked, const struct plan_request *request, struct err *e);

/* Offset of slice k of n_slices in n numbers; that of slice n_slices is n. */
size_t collective_slice(size_t n, int k, int n_slices);
/* Divides n numbers into buckets of at least `least` (0: into one), the last perhaps shorter. On entry,
 * `starts` holds the offsets of the layers, from the last to the first, which is 0; on return, those of the
 * buckets. Offsets out of order (running statistics, which follow all layers) are skipped. Returns the number
 * of buckets, 0 if there is no layer. */
size_t collective_buckets(size_t *starts, size_t n_starts, size_t n, size_t least);
/* The number of machines; `machines` as in plan_request. */
int collective_machines(const int *machines, int n_nodes);
/* The algorithm that COLLECTIVE_AUTO chooses; docs/dataplane.md has the measurements. */
enum collective_algorithm collective_choose(int n_nodes, size_t n_bytes, bool is_one_machine);
const char *collective_kind_name(enum collective_kind kind);

#endif
