/* pairs -- numbered pairs of a sender and a receiver; only those in use, which are few of all possible
 * pairs of ten thousand nodes. */
#ifndef PSGD_SIM_PAIRS_H
#define PSGD_SIM_PAIRS_H

#include <stdbool.h>
#include <stdint.h>

#include "shared/base/err.h"

enum { SIM_NO_PAIR = -1 };

struct sim_pair {
    int from, to;       /* slots */
    uint32_t n_waiting; /* messages sent and not yet taken by a poll */
    int next_of_sender; /* a list of pairs, for the owner; SIM_NO_PAIR ends it */
    bool is_paused;     /* by the receiver */
    bool is_broken;     /* they are lost to each other */
};

struct sim_pairs {
    struct sim_pair *of;
    uint32_t n, room; /* room: a power of two */
    uint32_t *index;  /* (2 room): number of a pair + 1, at its hash or after it; 0: free */
    uint32_t latest;  /* found or added */
};

int sim_pairs_init(struct sim_pairs *p, struct err *e);
void sim_pairs_clear(struct sim_pairs *p);
/* Returns NULL if there is no such pair. Valid until the next sim_pairs_add(). */
struct sim_pair *sim_pairs_find(struct sim_pairs *p, int from, int to);
/* Adds a new pair. NULL: no memory. */
struct sim_pair *sim_pairs_add(struct sim_pairs *p, int from, int to, struct err *e);

#endif
