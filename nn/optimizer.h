/* optimizer -- params <- params - update(grads), one pass over flat vectors.
 *   sgd   w -= lr g
 *   adam  Kingma and Ba 2015, Algorithm 1: beta 0.9 / 0.999, epsilon 1e-8 outside the root, bias-corrected */
#ifndef PSGD_OPTIMIZER_H
#define PSGD_OPTIMIZER_H

#include <stddef.h>

#include "shared/err.h"

struct optimizer;

/* `name`: "sgd" or "adam". ERR_CONFIG: another one. */
int optimizer_new(struct optimizer **out, const char *name, size_t n_params, float lr, struct err *e);
void optimizer_free(struct optimizer *o);
void optimizer_step(struct optimizer *o, float *params, const float *grads);

#endif
