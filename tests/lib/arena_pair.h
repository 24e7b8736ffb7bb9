/* arena_pair -- two nodes of an arena in one thread of a test. Whatever fails here fails the test. */
#ifndef PSGD_TEST_ARENA_PAIR_H
#define PSGD_TEST_ARENA_PAIR_H

#include "agent/runner/shm/arena.h"

struct arena_pair { /* nodes 4 and 7 */
    struct arena *a[2];
};

void arena_pair_open(struct arena_pair *p, size_t n_floats);
void arena_pair_close(struct arena_pair *p);

#endif
