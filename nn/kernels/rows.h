/* rows -- what a bias does to a matrix (n, width), forward and backward. */
#ifndef PSGD_ROWS_H
#define PSGD_ROWS_H

#include <stddef.h>

/* out (n, width): `row` in each. Products are added to it, so that starting from the bias costs nothing. */
void rows_repeat(float *out, const float *row, size_t n, size_t width);
/* sum (width) += the rows of a (n, width), from the first to the last. */
void rows_add(float *sum, const float *a, size_t n, size_t width);

#endif
