/* narrow -- products whose result has few columns, as those of a last layer: ten classes would leave most of
 * the tiles empty in which the libraries compute.
 *
 * The order of summation depends on m, n and k alone. Along the rows of `a`, sum l of eight takes the
 * products l, l + 8, ...; these are added up as ((0 + 1) + (2 + 3)) + ((4 + 5) + (6 + 7)), and the last k % 8
 * products follow one by one. Of more than 800, parts as equal as can be are summed up one after the other.
 * Along the columns of `a`, the products are added one by one.
 * Every multiplication is fused with its addition. */
#ifndef PSGD_NARROW_H
#define PSGD_NARROW_H

#include <stdbool.h>

enum {
    NARROW_COLS = 12,  /* of c at most */
    NARROW_ROWS = 16,  /* of c at least */
    NARROW_DEPTH = 800 /* rows of b that stay in the first-level cache, five columns of them */
};

/* As matmul(), for beta 0 and 1 and b as it lies, on one thread. False, and c as it was: not such a product,
 * or a processor without fused operations (cpu.h). */
bool narrow_matmul(bool a_t, bool b_t, int m, int n, int k, const float *a, const float *b, float beta,
                   float *c);

#endif
