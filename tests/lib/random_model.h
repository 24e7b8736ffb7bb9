/* random_model -- small random model documents around one kind of layer, for tests that hold for any. */
#ifndef PSGD_TEST_RANDOM_MODEL_H
#define PSGD_TEST_RANDOM_MODEL_H

#include <stdbool.h>
#include <stddef.h>

#include "shared/layer_spec.h"
#include "shared/rng.h"

enum { RANDOM_MODEL_LEN = 640 };

/* A new kind of layer needs a line in random_model.c. */
bool random_model_knows(enum layer_kind kind);

/* The layer stands behind one with parameters, so that what it sends down is checked as well: an embedding in
 * front of sequences half of the time, else a dense layer. Half of the time a dense layer follows. The loss
 * is any. */
void random_model(char *out, size_t size, enum layer_kind kind, struct rng *r);

#endif
