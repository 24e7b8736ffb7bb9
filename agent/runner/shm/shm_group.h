/* arena -- collectives between the nodes of one job that run on one machine, through memory that they share
 * (rendezvous.h) instead of sockets. A node with errors or bad intentions can make numbers wrong, but not
 * make another one crash, or wait beyond its deadline.
 *
 * Opening: a meeting of shm_group_bytes(n_floats) each, to which all have come; then shm_group_open. A
 * collective:
 *     shm_group_start(a, &(struct shm_collective){SHM_ALL_REDUCE, in, out, n}, &e);
 *     shm_group_poll until it returns 1
 * All nodes start the same collectives in the same order. One at a time; one thread.
 *
 * Sums are added in the order of the nodes, whatever n is: all nodes end bit-identical, and equal to a plain
 * loop over the nodes.
 *
 * Vectors of up to SHM_GROUP_SMALL floats are copied into one of two slots of the node's memory, and every
 * node reads all of them itself: one meeting. Slot k % 2 is written in collective k after collective k-1 is
 * complete here, for which all had to be ready for k-1, that is, complete with k-2: nobody reads it any more.
 * Longer ones lie in `in`. Node r reads its slice of all `in`s, and writes the sum into its own shared `out`,
 * from where the others copy it while it goes on with the next part. A collective is complete here when all
 * nodes are done with reading, so:
 *   - `in` can be written again as soon as a collective is complete: nobody reads it any more;
 *   - that `out` is written in collective k+1 once all are ready for k+1, that is, complete with k,
 *     which includes their copying. */
#ifndef PSGD_SHM_GROUP_H
#define PSGD_SHM_GROUP_H

#include "agent/runner/shm/rendezvous.h"

enum { SHM_GROUP_SMALL = 2048 /* floats */ };

enum shm_collective_kind {
    SHM_ALL_REDUCE, /* out = the sum of all in */
    SHM_BROADCAST,  /* out = root's in */
};

/* in (n), out (n) do not overlap. Wherever they lie, the result is the same; least copying is needed when in
 * is shm_group_in. */
struct shm_collective {
    enum shm_collective_kind kind;
    const float *in;
    float *out;
    size_t n;     /* at most n_floats */
    bool is_mean; /* sums are multiplied by 1 / n_nodes */
    int root;     /* SHM_BROADCAST: place of the node whose vector it is */
};

struct shm_group;

/* Of each node's memory, where the longest vector has n_floats; 0: more than can be counted. */
size_t shm_group_bytes(size_t n_floats);

/* Takes the meeting, also on failure; its places are what the calls below mean by `i`, in the order of
 * summation. ERR_NOMEM. */
int shm_group_open(struct shm_group **out, struct rendezvous *m, size_t n_floats, struct err *e);
void shm_group_close(struct shm_group *a); /* at any moment; NULL is fine. The others hear of it at once. */

/* (n_floats), from a multiple of 64 bytes, zeros at first; may be written between collectives. */
float *shm_group_in(const struct shm_group *a);

/* The part of n that node i sums: [*from, *to), perhaps empty. Slices lie in the order of the nodes. */
void shm_group_slice(const struct shm_group *a, size_t n, int i, size_t *from, size_t *to);

/* Says that this node's vector is there. The one before must be complete. The error is that of
 * shm_group_poll. */
int shm_group_start(struct shm_group *a, const struct shm_collective *c, struct err *e);

/* Goes as far as it can without sleeping, spinning for at most 50 us. 1: no collective is under way. 0:
 * others have to do something first; shm_group_fd becomes readable when they have. ERR_LOST: a node that is
 * waited for has ended. ERR_PROTOCOL: a node is in another collective. After an error the arena is good for
 * nothing but shm_group_close, and says the same again. */
int shm_group_poll(struct shm_group *a, struct err *e);

/* For an epoll of the caller's. Whenever it is readable, call shm_group_poll. */
int shm_group_fd(const struct shm_group *a);

/* On whom the collective under way waits, for people. */
void shm_group_waits_for(const struct shm_group *a, char *out, size_t size);

#endif
