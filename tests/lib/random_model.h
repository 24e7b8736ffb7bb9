/* random_model -- small random model documents around one kind of layer, for tests that hold for any. */
#ifndef PSGD_TEST_RANDOM_MODEL_H
#define PSGD_TEST_RANDOM_MODEL_H

#include <stdbool.h>
#include <stddef.h>

#include "shared/base/rng.h"
#include "shared/job/layer_spec.h"

enum { RANDOM_MODEL_LEN = 640 };

/* A new kind of layer needs a line in random_model.c. */
bool random_model_knows(enum layer_kind kind);

/* The layer follows one with parameters, so that its input gradient is checked as well: an embedding before
 * sequences half of the time, else a dense layer. Half of the time a dense layer follows, and
 * where the loss, which is random, needs it. */
void random_model(char *out, size_t size, enum layer_kind kind, struct rng *r);

#endif
