/* dropout_mask -- the random factors of dropout: 0 with probability `rate`, else 1 / P(stay). Srivastava et
 * al. 2014, inverted.
 *
 * Each value takes 16 random bits, so the rate is rounded to a multiple of 2^-16; the scale uses the rounded
 * rate, so that the expectation of a factor is exactly 1. */
#ifndef PSGD_DROPOUT_MASK_H
#define PSGD_DROPOUT_MASK_H

#include <stddef.h>

#include "shared/base/rng.h"

/* Fills m (n). */
void dropout_mask(float *m, size_t n, float rate, struct rng *r);

#endif
