/* narrow -- products whose result has few columns, as in a last layer: with ten classes, most of the
 * libraries' tiles would be empty.
 *
 * The order of summation depends on m, n and k alone. Along the rows of `a`, sum l of eight takes the
 * products l, l + 8, ...; these are added as ((0 + 1) + (2 + 3)) + ((4 + 5) + (6 + 7)), then the last k % 8
 * products one by one. A sum of more than 800 products is split into parts as equal as possible, summed one
 * after the other. Along the columns of `a`, the products are added one by one. Every multiplication is
 * fused with its addition. */
#ifndef PSGD_NARROW_H
#define PSGD_NARROW_H

#include <stdbool.h>

enum {
    NARROW_COLS = 12,  /* most columns of c */
    NARROW_ROWS = 16,  /* fewest rows of c */
    NARROW_DEPTH = 800 /* rows of b of which five columns fit the first-level cache */
};

/* As matmul(), for beta 0 and 1 and b not transposed, on one thread. Returns false, with c unchanged, if
 * the shape is not supported or the processor lacks fused operations (cpu.h). */
bool narrow_matmul(bool a_t, bool b_t, int m, int n, int k, const float *a, const float *b, float beta,
                   float *c);

#endif
