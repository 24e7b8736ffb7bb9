/* rows -- adds a bias to a matrix (n, width), forward, and sums its gradient, backward. */
#ifndef PSGD_ROWS_H
#define PSGD_ROWS_H

#include <stddef.h>

/* out (n, width): `row` in each. A product is then added to it, which makes the bias free. */
void rows_repeat(float *out, const float *row, size_t n, size_t width);
/* sum (width) += the rows of a (n, width), from the first to the last. */
void rows_add(float *sum, const float *a, size_t n, size_t width);

#endif
