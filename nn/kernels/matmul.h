/* matmul -- every matrix product of the engine goes through here. All matrices are stored row by row
 * without gaps.
 *
 *     c (m, n) = op(a) (m, k) op(b) (k, n) + beta c     op(x) = x, or its transpose if `a_t`, `b_t`
 *
 * The fastest implementation, OpenBLAS, oneDNN or nn/kernels/narrow.h, depends on the shape. The choice is
 * a function of the shape alone (matmul.c), so that a run repeats to the bit on the same machine. */
#ifndef PSGD_MATMUL_H
#define PSGD_MATMUL_H

#include <stdbool.h>

void matmul(bool a_t, bool b_t, int m, int n, int k, const float *a, const float *b, float beta, float *c);

#endif
