/* collective_plan -- who sends what to whom in one collective operation: a pure function of the operation,
 * the algorithm, the number of nodes, their vector's length and the longest piece. Nothing is sent here;
 * collective.c carries a plan out, a test runs it in a naive interpreter.
 *
 *   all-reduce       out = sum over nodes of in, the same bits on every node
 *   reduce-scatter   my slice of out = that sum; what the rest of out holds afterwards means nothing
 *   all-gather       slice k of out = slice k of node k's in
 *   broadcast        out = the root's in
 *   all-to-all       slice k of out = slice me of node k's in; n is a multiple of n_nodes
 *
 * A vector's slices are as equal as whole numbers allow: collective_slice(). A range's pieces go from its end
 * to its front, as a gradient comes to be.
 *
 * Each pair of nodes hears the pieces of one sender in the order sent. Pieces are taken in the order of
 * `recvs`, whatever order they come in, so the order of summation does not depend on timing. A send waits
 * until the first `after` receipts are done: that is all there is to know of dependencies. Where a range
 * holds no number at all its one piece is empty, and sent: so the following two hold for every plan and every
 * n.
 *
 *   1. Who has finished has heard, over however many others, from every node: all have begun this collective
 *   and finished the one before, and what was sent of the one before has been taken.
 *   2. What was sent from IN has been taken by its receiver when its sender has finished. Where the pieces
 *   that come back do not say so, a copy (KEPT) is sent instead.
 *
 * Hence the contract of codec.h: `in` is free when a collective is done, `out` when the next one is.
 *
 * All-reduce, of the vector or of one bucket after the other (both statements hold for each):
 *   ring                 reduce-scatter, then all-gather, to the next node all the time: 2 (N-1) pieces deep,
 *                        the fewest bytes: 2 (N-1)/N n each way. Patarasuk and Yuan, "Bandwidth optimal
 *                        all-reduce algorithms for clusters of workstations", JPDC 2009.
 *   halving-doubling     the same bytes in 2 log2 N exchanges with partners at halving, then doubling
 *                        distance: Thakur, Rabenseifner and Gropp, "Optimization of collective communication
 *                        operations in MPICH", IJHPCA 2005, section 4.5. Where N is no power of two, each
 *                        node beyond the largest one in N first gives its whole vector to a node below it and
 *                        gets the result from it in the end: 2 n more bytes on that link, two pieces deeper.
 *   tree                 sums up a binomial tree to node 0 and sends the result down: 2 log2 N deep, log2 N
 *                        times n through node 0.
 *   direct               everybody sends everything to everybody and sums in the order of the nodes: one
 *                        piece deep, (N-1) n each way. */
#ifndef PSGD_COLLECTIVE_PLAN_H
#define PSGD_COLLECTIVE_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shared/err.h"

enum collective_kind {
    COLLECTIVE_ALL_REDUCE,
    COLLECTIVE_REDUCE_SCATTER,
    COLLECTIVE_ALL_GATHER,
    COLLECTIVE_BROADCAST,
    COLLECTIVE_ALL_TO_ALL,
    COLLECTIVE_KINDS
};

/* Of an all-reduce; the other operations have one each. */
enum collective_algorithm {
    COLLECTIVE_AUTO,
    COLLECTIVE_RING,
    COLLECTIVE_HALVING_DOUBLING,
    COLLECTIVE_TREE,
    COLLECTIVE_DIRECT,
    COLLECTIVE_ALGORITHMS
};

struct plan_ask {
    enum collective_kind kind;
    enum collective_algorithm algorithm;
    int n_nodes, me;
    int root;            /* of a broadcast */
    size_t n;            /* floats in `in` and in `out` */
    bool is_one_machine; /* all nodes run on one: what COLLECTIVE_AUTO stands for depends on it */
    size_t chunk;        /* floats in the longest piece, at least n / INT_MAX + 1 */
    /* All-reduce: where the buckets begin that are summed one after another, from the vector's end to its
     * front; the last is 0. Borrowed. None: the whole vector is one. */
    const size_t *buckets;
    size_t n_buckets;
};

enum plan_vector { PLAN_IN, PLAN_OUT, PLAN_KEPT };

/* What is done with a piece x, on its range. */
enum plan_op {
    PLAN_COPY,       /* out = x; x may be put there as soon as it comes */
    PLAN_ADD,        /* out = out + x */
    PLAN_ADD_TO_IN,  /* out = in + x */
    PLAN_ADD_AND_IN, /* out = (out + x) + in */
    PLAN_OPS
};

/* Done by oneself, before anything else: to = in, on a range. */
struct plan_copy {
    enum plan_vector to;
    size_t first, n;
};

struct plan_send {
    int to;
    uint32_t index; /* its place among the pieces to that node, from 0 */
    enum plan_vector vector;
    size_t first, n;
    size_t after; /* so many receipts must be done */
};

struct plan_recv {
    int from;
    enum plan_op op;
    bool is_sum; /* all nodes are in it now: a mean is this, divided */
    size_t first, n;
    size_t next; /* index of the next piece of the same sender; n_recvs: there is none */
};

struct collective_plan { /* {0} is an empty one */
    struct plan_ask ask;
    struct plan_copy copies[2];
    size_t n_copies, n_sends, n_recvs;
    struct plan_send *sends;
    struct plan_recv *recvs;
    size_t *first; /* (n_nodes): index of each node's first piece; n_recvs: there is none */
    size_t sends_room, recvs_room;
};

/* Makes the plan anew in p, whose memory it uses again. ERR_NOMEM. */
int collective_plan_make(struct collective_plan *p, const struct plan_ask *ask, struct err *e);
void collective_plan_clear(struct collective_plan *p);

/* Where slice k of n_slices begins in n numbers; slice n_slices would begin at n. */
size_t collective_slice(size_t n, int k, int n_slices);
/* Cuts n numbers into buckets of at least `least` (0: into one), the last perhaps shorter. `starts` is where
 * layers begin, from the last one to the first, which begins at 0; afterwards where the buckets do. Places
 * that are not in turn, running statistics after all layers, are left out. Returns the number of buckets, 0
 * where no layer is. */
size_t collective_buckets(size_t *starts, size_t n_starts, size_t n, size_t least);
/* The algorithm that COLLECTIVE_AUTO stands for: docs/dataplane.md has the figures. */
enum collective_algorithm collective_choose(int n_nodes, size_t n, bool is_one_machine);
/* "ring" -> COLLECTIVE_RING; -1: no such algorithm. */
int collective_algorithm_find(const char *name);
const char *collective_kind_name(enum collective_kind kind);

#endif
