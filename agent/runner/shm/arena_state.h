/* arena_state -- what an arena is made of: the nodes' memories, seen as words and vectors, and the collective
 * under way.
 *
 * Bytes of a memory, all of the machine that the nodes run on:
 *      0  struct arena_words, the owner's words for the others, one cache line for each purpose
 * 4096  slots[2][ARENA_SMALL]: short vectors
 *      .. in[n_floats], then out[n_floats], each from a multiple of 64 bytes */
#ifndef PSGD_ARENA_STATE_H
#define PSGD_ARENA_STATE_H

#include <stdalign.h>
#include <stdatomic.h>

#include "agent/runner/shm/arena.h"

enum { ARENA_LINE = 64 /* bytes that processors pass on at once */ };

struct arena_words { /* collectives are counted from 1 */
    /* the collective whose vector lies there to be read; which one that is, at its number modulo 2 */
    alignas(ARENA_LINE) _Atomic uint64_t ready;
    _Atomic uint64_t what[2], floats[2];
    /* how many parts of its slice the owner has done in collective `working` */
    alignas(ARENA_LINE) _Atomic uint64_t working;
    _Atomic uint64_t parts;
    /* wants a byte when something changes */
    alignas(ARENA_LINE) _Atomic uint32_t is_asleep;
};

struct arena_view { /* one node's memory, as its owner or as another node sees it */
    struct arena_words *words;
    float *slots[2];
    float *in, *out;
};

struct arena {
    struct meeting *meeting;
    int n, me;
    size_t n_floats;
    struct arena_view views[MEETING_MAX];
    size_t n_taken[MEETING_MAX]; /* parts of that node's slice that are copied, in this collective */
    bool must_yield;             /* more nodes than processors */
    bool must_hear;              /* has slept since it last heard the sockets */
    struct arena_collective now;
    enum { STAGE_NONE, STAGE_READY, STAGE_GATHER } stage;
    uint64_t number;      /* of the collective */
    size_t n_parts, part; /* of a slice; those of this node's that are done */
    int waits_for;        /* place of the first node not known to be as far as it must be */
    struct err broken;    /* code 0: it is not */
};

#endif
