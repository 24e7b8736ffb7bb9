/* transpose -- a matrix laid out column by column, for products that read it faster so. */
#ifndef PSGD_TRANSPOSE_H
#define PSGD_TRANSPOSE_H

#include <stddef.h>

enum { TRANSPOSE_ROWS = 8, TRANSPOSE_COLS = 16 };

/* to (cols, rows) = from (rows, cols), of multiples of TRANSPOSE_ROWS and TRANSPOSE_COLS. */
void transpose(float *to, const float *from, size_t rows, size_t cols);

#endif
