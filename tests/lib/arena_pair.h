/* arena_pair -- two nodes of an arena in one thread of a test, which nobody keeps from doing what a runner
 * would not. Whatever fails here fails the test. */
#ifndef PSGD_TEST_ARENA_PAIR_H
#define PSGD_TEST_ARENA_PAIR_H

#include "agent/runner/arena.h"

struct arena_pair {
    struct arena *a[2];
};

extern const int arena_pair_nodes[2]; /* 4 and 7 */
extern const uint8_t arena_pair_secret[ARENA_SECRET_BYTES];

/* The first expects the second, which has not come yet. */
void arena_pair_open(struct arena_pair *p, size_t n_floats_0, size_t n_floats_1);
void arena_pair_meet(struct arena_pair *p); /* it comes, and both are there */
/* Both nodes as far as they get; what the last call of each said. */
void arena_pair_poll(struct arena_pair *p, int rc[2], struct err e[2]);
void arena_pair_close(struct arena_pair *p);

#endif
