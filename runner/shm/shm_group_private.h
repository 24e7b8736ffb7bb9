/* shm_group_private -- internals of a shm group: layout of the nodes' memories, and the current collective.
 *
 * Layout of each node's memory (byte offsets), in host byte order:
 *      0  struct shm_group_counters, written by the owner, one cache line for each purpose
 *   4096  slots[2][SHM_GROUP_SMALL]: short vectors
 *     ..  in[n_floats], then sums[of the longest slice], each at the start of a page */
#ifndef PSGD_SHM_GROUP_PRIVATE_H
#define PSGD_SHM_GROUP_PRIVATE_H

#include <stdalign.h>
#include <stdatomic.h>

#include "runner/base/affinity.h"
#include "runner/shm/shm_group.h"

enum { SHM_GROUP_LINE = 64 /* bytes of a cache line */, SHM_GROUP_PAGE = 4096 };

struct shm_group_counters { /* collectives are numbered from 1 */
    /* number of the collective whose vector can be read; its kind, root and length, at index number % 2 */
    alignas(SHM_GROUP_LINE) _Atomic uint64_t ready;
    _Atomic uint64_t signature[2], floats[2];
    /* number of parts of its slice that the owner has finished in collective `working` */
    alignas(SHM_GROUP_LINE) _Atomic uint64_t working;
    _Atomic uint64_t parts;
    /* bit i: node i's numbers of these parts are not all finite */
    _Atomic uint64_t nonfinite;
    /* Not 0: the owner sleeps, and node k wakes it once when its counters change. The low byte is k + 1, the
     * rest differs from sleep to sleep. */
    alignas(SHM_GROUP_LINE) _Atomic uint64_t sleeps_on;
    /* of the owner; written before its first vector is ready */
    alignas(SHM_GROUP_LINE) struct affinity affinity;
};

struct shm_group_view { /* one node's memory, as its owner or as another node sees it */
    struct shm_group_counters *counters;
    float *slots[2];
    float *in, *sums; /* sums: of the owner's slice, at the start of a page */
};

struct shm_group {
    struct rendezvous *rendezvous;
    int n, me;
    size_t n_floats;
    float *sum; /* (n_floats): shm_group_sum; NULL: none */
    struct shm_group_view views[RENDEZVOUS_MAX];
    size_t n_taken[RENDEZVOUS_MAX];  /* parts of that node's slice copied in this collective */
    enum affinity_crowding crowding; /* AFFINITY_CROWDED until the processors of all nodes are known */
    bool must_poll;                  /* may have slept since it last read the sockets */
    struct shm_collective now;
    enum { STAGE_NONE, STAGE_READY, STAGE_GATHER } stage;
    uint64_t number;      /* of the current collective */
    size_t n_parts, part; /* parts of a slice; parts of this node's slice that are done */
    uint64_t nonfinite;   /* bit i: node i's vector of the last all-reduce is not finite */
    int waits_for;        /* index of the first node not known to have reached the awaited state */
    int blocked_by;       /* index of the node found last not to be ready in this collective; `me`: none */
    int last;             /* the same of the previous collective */
    uint64_t n_laid_down; /* makes the values of sleeps_on differ */
    uint64_t has_woken[RENDEZVOUS_MAX]; /* the sleep from which this node has woken that one last */
    double waits_since;                 /* clock_now: since when this node waits for others */
    double usual_wait_s;                /* until the others were ready, in the last collectives */
    struct shm_group_counts counts;
    struct err broken; /* the error that ended the group; code 0: none */
};

/* Until when (clock_now) a node spins that begins at `now`, perhaps again in the same wait. */
double shm_group_spins_until(const struct shm_group *g, double now);

#endif
