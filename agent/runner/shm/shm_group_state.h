/* shm_group_state -- what an arena is made of: the nodes' memories, seen as words and vectors, and the
 * collective under way.
 *
 * Bytes of a memory, all of the machine that the nodes run on:
 *      0  struct shm_group_counters, the owner's words for the others, one cache line for each purpose
 * 4096  slots[2][SHM_GROUP_SMALL]: short vectors
 *      .. in[n_floats], then out[n_floats], each from a multiple of 64 bytes */
#ifndef PSGD_SHM_GROUP_STATE_H
#define PSGD_SHM_GROUP_STATE_H

#include <stdalign.h>
#include <stdatomic.h>

#include "agent/runner/shm/shm_group.h"

enum { SHM_GROUP_LINE = 64 /* bytes that processors pass on at once */ };

struct shm_group_counters { /* collectives are counted from 1 */
    /* the collective whose vector lies there to be read; which one that is, at its number modulo 2 */
    alignas(SHM_GROUP_LINE) _Atomic uint64_t ready;
    _Atomic uint64_t what[2], floats[2];
    /* how many parts of its slice the owner has done in collective `working` */
    alignas(SHM_GROUP_LINE) _Atomic uint64_t working;
    _Atomic uint64_t parts;
    /* wants a byte when something changes */
    alignas(SHM_GROUP_LINE) _Atomic uint32_t is_asleep;
};

struct shm_group_view { /* one node's memory, as its owner or as another node sees it */
    struct shm_group_counters *counters;
    float *slots[2];
    float *in, *out;
};

struct shm_group {
    struct rendezvous *rendezvous;
    int n, me;
    size_t n_floats;
    struct shm_group_view views[RENDEZVOUS_MAX];
    size_t n_taken[RENDEZVOUS_MAX]; /* parts of that node's slice that are copied, in this collective */
    bool must_yield;                /* more nodes than processors */
    bool must_poll;                 /* has slept since it last heard the sockets */
    struct shm_collective now;
    enum { STAGE_NONE, STAGE_READY, STAGE_GATHER } stage;
    uint64_t number;      /* of the collective */
    size_t n_parts, part; /* of a slice; those of this node's that are done */
    int waits_for;        /* place of the first node not known to be as far as it must be */
    struct err broken;    /* code 0: it is not */
};

#endif
