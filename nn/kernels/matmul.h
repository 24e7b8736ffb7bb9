/* matmul -- every matrix product of the engine goes through here. All matrices lie row by row without gaps.
 *
 *     c (m, n) = op(a) (m, k) op(b) (k, n) + beta c     op(x) = x, or its transpose where `a_t`, `b_t` say so
 *
 * Libraries differ by shape, and nn/narrow has loops for a few: who takes a product is a rule of the shape
 * alone (matmul.c), so that a run repeats to the bit on the same machine. */
#ifndef PSGD_MATMUL_H
#define PSGD_MATMUL_H

#include <stdbool.h>

void matmul(bool a_t, bool b_t, int m, int n, int k, const float *a, const float *b, float beta, float *c);

#endif
