/* shm_group -- collectives between the nodes of one job on one machine, through shared memory
 * (rendezvous.h) instead of sockets. A faulty or malicious node can make results wrong, but cannot make
 * another node crash or wait beyond its deadline.
 *
 * Opening: a rendezvous of shm_group_bytes(n_floats, n_nodes) bytes per node that all have joined; then
 * shm_group_open. A collective:
 *     shm_group_start(g, &(struct shm_collective){SHM_ALL_REDUCE, in, out, n}, &e);
 *     shm_group_poll until it returns 1
 * All nodes start the same collectives in the same order, one at a time. Not thread-safe.
 *
 * Sums are added in node order for every n: results are bit-identical on all nodes, and equal to a plain
 * loop over the nodes.
 *
 * Vectors of up to SHM_GROUP_SMALL floats are copied into one of two slots of the node's memory, and every
 * node reads all of them itself: one synchronization. Collective k uses slot k % 2, last used by k-2. A node
 * begins k only after it has completed k-1; for that all nodes had started k-1, and so had completed k-2: no
 * node still reads the slot. Longer vectors are in `in`. Node r reads its slice of every node's `in` and
 * writes the sum into its own shared `sums`; the others copy it from there while node r continues with the
 * next part. A collective is complete here when all nodes have done their slices and this node has copied
 * them, so:
 *   - `in` can be written again as soon as a collective is complete: no node reads it any more, and a part of
 *     it as soon as the node whose slice it is has published that part's sum: `out` may be `in`;
 *   - the shared `sums` are written in collective k+1 once all nodes are ready for k+1, hence complete with
 *     k, which includes their copying, or their use where they are. */
#ifndef PSGD_SHM_GROUP_H
#define PSGD_SHM_GROUP_H

#include "runner/shm/rendezvous.h"

enum { SHM_GROUP_SMALL = 2048 /* floats */ };

enum shm_collective_kind {
    SHM_ALL_REDUCE, /* out = the sum of all in */
    SHM_BROADCAST,  /* out = root's in */
};

/* in (n) and out (n) may be anywhere; in == shm_group_in saves a copy, and in an all-reduce
 * out == shm_group_sum another one. They must not overlap, but for in == out at the root of a broadcast, and
 * in an all-reduce where they are shm_group_in. */
struct shm_collective {
    enum shm_collective_kind kind;
    const float *in;
    float *out;
    size_t n;     /* at most n_floats */
    bool is_mean; /* sums are multiplied by 1 / n_nodes */
    int root;     /* SHM_BROADCAST: index of the node that sends its vector */
};

struct shm_group_counts { /* of one node */
    uint64_t n_collectives;
    uint64_t n_sleeps, n_wakeups; /* how often it went to sleep, and woke another node */
    uint64_t copied_bytes;        /* into shared memory, and out of it */
};

struct shm_group;

/* Size in bytes of the memory of each of n_nodes for vectors of up to n_floats; 0: overflow. */
size_t shm_group_bytes(size_t n_floats, int n_nodes);

/* Takes ownership of the rendezvous, also on failure. Its indices are the `i` of the calls below, and the
 * order of summation. ERR_NOMEM. */
int shm_group_open(struct shm_group **out, struct rendezvous *m, size_t n_floats, struct err *e);
void shm_group_close(struct shm_group *g); /* allowed in any state; NULL is allowed; notifies the others */

int shm_group_n(const struct shm_group *g);
int shm_group_me(const struct shm_group *g);
int shm_group_node(const struct shm_group *g, int i); /* its node id */

/* (n_floats), 64-byte aligned, initially zero; may be written between collectives. */
float *shm_group_in(const struct shm_group *g);

/* (n): the nodes' shared sums one after the other, mapped for reading: a store faults. With `out` here the
 * result of an all-reduce is not copied; it stays until this node starts the next collective. NULL: n is not
 * n_floats, or so small that slices of whole pages would differ much in length, or the kernel refuses the
 * mapping. */
float *shm_group_sum(const struct shm_group *g, size_t n);

/* The range [*from, *to) of n floats that node i sums, perhaps empty. Slices are in node order. */
void shm_group_slice(const struct shm_group *g, size_t n, int i, size_t *from, size_t *to);

/* Publishes this node's vector. The previous collective must be complete. Errors: those of shm_group_poll. */
int shm_group_start(struct shm_group *g, const struct shm_collective *c, struct err *e);

/* Advances the collective without sleeping, spinning for 50 us, or for up to 2 ms once in a wait where that
 * is usual and no other node needs this node's processor. 1: complete, or none was started.
 * 0: waiting for other nodes; shm_group_fd becomes readable when to call again. ERR_LOST: an awaited node
 * has ended. ERR_PROTOCOL: a node is in another collective. After an error only shm_group_close is allowed;
 * other calls return the same error. */
int shm_group_poll(struct shm_group *g, struct err *e);

/* Was node i's vector in the last complete all-reduce not finite? Its owner cannot check any more if `out`
 * was `in`. Found while the sum was computed, at no cost while sums are finite. */
bool shm_group_is_nonfinite(const struct shm_group *g, int i);

struct shm_group_counts shm_group_counts(const struct shm_group *g);

/* A descriptor to poll: when it is readable, call shm_group_poll. */
int shm_group_fd(const struct shm_group *g);

/* The node for which the current collective waits; and the same as text, with the missing part. */
int shm_group_awaits(const struct shm_group *g);
void shm_group_waits_for(const struct shm_group *g, char *out, size_t size);

#endif
