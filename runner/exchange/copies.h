/* copies -- the parameters as their receivers have them, in a job whose servers send parameters through a
 * lossy chain (--compress-down). A lossy copy of the weights themselves would lose every update below its
 * error. So a server sends how its parameters x differ from those that the worker has, y; with C the
 * chain,
 *
 *     send C(x - y);      y <- y + C(x - y)      on both sides, to the same bits
 *
 * What a message leaves out, l = x - y, is part of the next difference, which is error feedback for
 * weights: the algorithm EF21-P of Gruntkowska, Tyurin and Richtarik, "EF21-P and Friends: Improved
 * Theoretical Communication Complexity for Distributed Optimization with Bidirectional Compression", ICML
 * 2023, w <- w + C(x - w). C must have |C(d) - d| < |d|, so it is multiplied as with ef=true (chain.h). In
 * asgd, which the paper does not treat, each worker has a y of its own. All nodes begin with the same
 * weights, which are the first y.
 *
 * Where a worker's contribution is its weights (fedavg), these began as y, not as x: they lack l. The
 * server adds the l of the last message to that worker, so that nothing is lost there either. */
#ifndef PSGD_COPIES_H
#define PSGD_COPIES_H

#include <stdbool.h>
#include <stddef.h>

#include "shared/base/err.h"

struct copies {
    int n; /* of a worker 1; of a server 1 if all workers have the same, else n_workers; 0: no differences */
    size_t n_params;
    float **of;   /* (n) vectors (n_params): y, the same at both ends; NULL: its worker is lost */
    float **left; /* server: (n) vectors (n_params): l. NULL: contributions need none */
    float *work;  /* (n_params); on a worker y with the message that is read, ... */
    bool is_read; /* ... which replaces of[0] when that was processed */
};

enum copies_kind {
    COPIES_OF_WORKER,
    COPIES_OF_SERVER,
    COPIES_WITH_LEFT /* server: and contributions lack l */
};

/* All of them begin as `params` (n_params). ERR_NOMEM. */
int copies_open(struct copies *c, enum copies_kind kind, int n, const float *params, size_t n_params,
                struct err *e);
void copies_clear(struct copies *c);
size_t copies_bytes(const struct copies *c); /* of all y and l */

/* The index of that worker's; `worker` may be any number where n is 1. */
int copies_index(const struct copies *c, int worker);
void copies_forget(struct copies *c, int worker); /* it is lost; no-op where all have the same */

void copies_swap(struct copies *c); /* on a worker, when a message that is read was processed */

#endif
