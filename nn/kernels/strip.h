/* strip -- products of small matrices that lie in larger ones, as those of one head of attention. The
 * libraries take longer to begin such a product than to compute it.
 *
 * The order of summation depends on the shape alone: each value is summed from its first product to its
 * last, every multiplication fused with its addition where the processor has fused operations (cpu.h). */
#ifndef PSGD_STRIP_H
#define PSGD_STRIP_H

#include <stddef.h>

/* Which values matter. Rows are computed in strips of a few, so that values next to the limit are computed,
 * or must be zero, too: up to STRIP_ROWS - 1 columns of `a`, up to 16 + STRIP_ROWS columns of c. */
enum strip_part {
    STRIP_ALL,
    STRIP_C_LOWER, /* of c those on the diagonal and below */
    STRIP_A_LOWER, /* of `a` the same; those above are 0 */
    STRIP_A_UPPER  /* of `a` those on the diagonal and above; those below are 0 */
};

enum { STRIP_ROWS = 8 /* at most */, STRIP_COLS = 16 };

struct strip_operand {
    const float *at;
    size_t row, col; /* floats between neighboring rows, and columns */
};

/* c (m, n) = a (m, k) b (k, n). The columns of b are contiguous: b.col is not read. c's rows are ldc
 * apart. */
void strip_matmul(enum strip_part part, size_t m, size_t n, size_t k, struct strip_operand a,
                  struct strip_operand b, float *c, size_t ldc);

#endif
