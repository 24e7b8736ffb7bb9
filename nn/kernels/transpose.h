/* transpose -- transposes a matrix, for products that read it faster column by column. */
#ifndef PSGD_TRANSPOSE_H
#define PSGD_TRANSPOSE_H

#include <stddef.h>

enum { TRANSPOSE_ROWS = 8, TRANSPOSE_COLS = 16 };

/* to (cols, rows) = from (rows, cols), `rows` a multiple of TRANSPOSE_ROWS, `cols` of TRANSPOSE_COLS. The
 * rows of each are `ldt` and `ldf` floats apart. */
void transpose(float *to, size_t ldt, const float *from, size_t ldf, size_t rows, size_t cols);

#endif
