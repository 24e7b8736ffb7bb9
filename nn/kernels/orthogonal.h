/* orthogonal -- replaces a matrix by one near its orthogonal factor, U V^T of the singular value
 * decomposition U S V^T: five steps of a Newton-Schulz iteration with the coefficients of Jordan's Muon,
 * which bring singular values near 1, within about 0.7 .. 1.2.
 *
 *     x <- x / (|x| + 1e-7), |x| the Frobenius norm
 *     5 times:  a = x x^T,  x <- 3.4445 x + (-4.7750 a + 2.0315 a a) x
 *
 * A matrix with more rows than columns is transposed before and after. The bits are the same on every
 * processor (matmul_exact). */
#ifndef PSGD_ORTHOGONAL_H
#define PSGD_ORTHOGONAL_H

#include <stddef.h>

/* Floats of `work` for a matrix of this shape. */
size_t orthogonal_work(size_t rows, size_t cols);
/* x (rows, cols). 0 stays 0; a value that is not finite makes all of them NaN. */
void orthogonal_replace(float *x, size_t rows, size_t cols, float *work);

#endif
