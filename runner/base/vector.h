/* vector -- adding and copying long vectors: bound by memory, the same bits on every machine. */
#ifndef PSGD_VECTOR_H
#define PSGD_VECTOR_H

#include <stdbool.h>
#include <stddef.h>

/* out[i] = (in[0][i] + in[1][i] + ... + in[n_in - 1][i]) * scale, added from the left, for i < n; n_in >= 1.
 * Scaling by 1 changes nothing. `out` may be one of the vectors of `in`, and otherwise overlaps none; no
 * vector need be aligned. Returns whether all of out is finite; a number of `in` that is not finite makes the
 * sum not finite. */
bool vector_sum(float *out, const float *const *in, int n_in, size_t n, float scale);

/* sum[i] = part * v[i], or += that, for i < n. They do not overlap. Returns whether all of v is finite. */
bool vector_scale(float *sum, const float *v, float part, size_t n);
bool vector_add(float *sum, const float *v, float part, size_t n);
/* mean[i] = (1 - part) * mean[i] + part * v[i], for i < n. They do not overlap. Returns the same. */
bool vector_mix(float *mean, const float *v, float part, size_t n);

/* out[i] = in[i], for i < n. They do not overlap. */
void vector_copy(float *out, const float *in, size_t n);

#endif
