/* undo -- a codec as it was before a round, to go back to when a word turns out to be none after others have
 * been merged: its range of the model and of the gradient, its vectors, its state, where its random numbers
 * were. */
#ifndef PSGD_UNDO_H
#define PSGD_UNDO_H

#include <stddef.h>

#include "shared/rng.h"

struct channel;

struct undo {
    float *vectors; /* params, grads, then those of zeros(); NULL before the first undo_keep */
    void *state;
    struct rng rng;
};

/* The first call makes room for it. ERR_NOMEM, which stands in the exchange's error. */
int undo_keep(struct undo *u, struct channel *ch);
void undo_restore(const struct undo *u, struct channel *ch);
void undo_clear(struct undo *u);

#endif
