/* undo -- a copy of a codec from before a round, restored when a contribution turns out to be malformed or
 * missing after others have been merged: its range of the model and of the gradient, its vectors, its state,
 * its random generator. */
#ifndef PSGD_UNDO_H
#define PSGD_UNDO_H

#include <stddef.h>

#include "shared/base/rng.h"

struct channel;

struct undo {
    char *vectors; /* params, grads, global, then those of zeros(); NULL before the first undo_keep */
    void *state;
    struct rng rng;
};

/* The first call allocates it. ERR_NOMEM, set in the exchange's error. */
int undo_keep(struct undo *u, struct channel *ch);
void undo_restore(const struct undo *u, struct channel *ch);
void undo_clear(struct undo *u);

#endif
