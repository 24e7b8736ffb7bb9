/* arena_memory -- what a node of an arena shows to the others: a memfd of fixed size that only its owner can
 * write.
 *
 * The owner maps it for writing and then seals it (memfd_create(2), F_ADD_SEALS in fcntl(2)): nobody can
 * change its size any more, and no new mapping can be writable, whoever holds the descriptor. The others
 * look at the seals and the size before they map it for reading, so that no owner can make a load of theirs
 * fault, and believe no length that is written in it.
 *
 * Bytes, all of the machine that both run on:
 *      0  struct arena_words, the owner's words for the others, one cache line for each purpose
 * 4096  slots[2][ARENA_SMALL]: short vectors
 *      .. in[n_floats], then out[n_floats], each from a multiple of 64 bytes */
#ifndef PSGD_ARENA_MEMORY_H
#define PSGD_ARENA_MEMORY_H

#include <stdalign.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "shared/err.h"

enum {
    ARENA_SMALL = 2048, /* floats */
    ARENA_LINE = 64,    /* bytes that processors pass on at once */
};

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
    void *start;    /* NULL: not there */
    size_t size;
    struct arena_words *words;
    float *slots[2];
    float *in, *out;
};

/* A memory of this node's own: mapped for writing, sealed, every page there. *fd is for the others, the
 * caller closes it. ERR_NOMEM: `n_nodes` nodes with so much each do not fit into this machine's memory. */
int arena_memory_make(struct arena_view *out, int *fd, size_t n_floats, int n_nodes, struct err *e);

/* Another node's memory, mapped for reading: a write through the view is a fault. ERR_PROTOCOL: it is not a
 * sealed memfd of the size that n_floats makes. */
int arena_memory_borrow(struct arena_view *out, int fd, size_t n_floats, struct err *e);

void arena_memory_clear(struct arena_view *v);

#endif
