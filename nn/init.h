/* init -- initial values of a tensor, by the names of shared/job/layer_kinds.h, from its own random
 * generator.
 *
 *   glorot_uniform  U(-a, a), a = sqrt(6 / (fan_in + fan_out))     Glorot and Bengio 2010, eq. 16
 *   glorot_normal   N(0, 2 / (fan_in + fan_out))                    ibid., section 4.2.1
 *   he_uniform      U(-a, a), a = sqrt(6 / fan_in)                  He et al. 2015, eq. 10
 *   he_normal       N(0, 2 / fan_in)                                ibid.
 *   fan_in_uniform  U(-a, a), a = 1 / sqrt(fan_in)                  LeCun et al. 1998; PyTorch's default
 *   normal          N(0, scale^2)          uniform  U(-scale, scale)
 *   orthogonal      rows or columns, whichever are fewer, of a random orthogonal matrix  Saxe et al. 2014
 *                   (a convolution's: rows x columns x channels inputs to each filter; lstm, gru: a matrix
 *                   for each gate)
 *
 * No library is used: all nodes begin with the same bits, whatever their kernels and threads. */
#ifndef PSGD_INIT_H
#define PSGD_INIT_H

#include "shared/base/rng.h"
#include "shared/job/layer_spec.h"

void init_tensor(float *w, const struct tensor_spec *t, struct rng *r);

#endif
