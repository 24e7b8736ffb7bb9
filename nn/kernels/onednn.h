/* onednn -- oneDNN's matrix product, where psgd was built with it. */
#ifndef PSGD_ONEDNN_H
#define PSGD_ONEDNN_H

#include <stdbool.h>

/* Of matmul.h's contract. False: not built in, nothing was done. */
bool onednn_matmul(bool a_t, bool b_t, int m, int n, int k, const float *a, const float *b, float beta,
                   float *c);
/* The same for a transposed a and b as it lies, from copies of both whose rows are a cache line longer.
 * False: not built in, or they would be more than stays in the second-level cache.
 * For one caller at a time. */
bool onednn_matmul_copied(int m, int n, int k, const float *a, const float *b, float beta, float *c);
/* The same for a as it lies and a transposed b, from a copy of b that is not. False, also: n or k is not of
 * those that transpose() takes. */
bool onednn_matmul_transposed(int m, int n, int k, const float *a, const float *b, float beta, float *c);
/* ", oneDNN 2.6.3", or "" without it. */
const char *onednn_version(void);

#endif
