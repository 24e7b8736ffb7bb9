/* matmul -- every matrix product of the engine. All matrices are stored row by row without gaps.
 *
 *     c (m, n) = op(a) (m, k) op(b) (k, n) + beta c     op(x) = x, or its transpose if `a_t`, `b_t`
 *
 * OpenBLAS, oneDNN or a loop of psgd (narrow.h, and panels below) computes it. The choice is a function of
 * the shape and the processor alone, so that a run repeats to the bit on the same machine. */
#ifndef PSGD_MATMUL_H
#define PSGD_MATMUL_H

#include <stdbool.h>
#include <stddef.h>

void matmul(bool a_t, bool b_t, int m, int n, int k, const float *a, const float *b, float beta, float *c);

/* out (n, width): `row` in each row, such as a bias. A product is then added by beta 1, so that the bias
 * takes no pass of its own. */
void matmul_repeat_row(float *out, const float *row, size_t n, size_t width);
/* sum (width) += the rows of a (n, width), from the first to the last: the gradient of that bias. */
void matmul_add_rows(float *sum, const float *a, size_t n, size_t width);

/* The second operand of several products, packed once. The libraries pack it for each product, which takes a
 * good part of the time if the first operand has few rows. */
struct matmul_packed {
    bool is_t;
    int n, k;
    const float *b; /* the caller's */
    /* (k, 16) for each 16 columns of op(b); the last one is padded with zeros. NULL: the libraries compute
     * with b. */
    const float *panels;
};

/* Floats that matmul_pack() needs for b (k, n) or (n, k). */
size_t matmul_pack_size(int n, int k);

/* op(b) (k, n); op(b) = b, or its transpose if `b_t`. b and `space` must outlive `packed`. */
void matmul_pack(struct matmul_packed *packed, bool b_t, int n, int k, const float *b, float *space);

/* c (m, n) = a (m, k) op(b) (k, n), with the same bits on every processor, for values that nodes compute and
 * do not exchange. Each is summed from its first product to the last, every multiplication fused with its
 * addition: by instructions, and by fmaf(), which is slow, where a processor has none. `space` has
 * matmul_pack_size(n, k) floats. is_symmetric: c is, so only half of it is computed. */
void matmul_exact(bool b_t, bool is_symmetric, int m, int n, int k, const float *a, const float *b,
                  float *space, float *c);
/* The same by fmaf(), for processors without such instructions. */
void matmul_exact_loop(bool b_t, int m, int n, int k, const float *a, const float *b, float *c);

/* c (m, n) = a (m, k) op(b) (k, n) + beta c, for beta 0 or 1. With panels, each value of the result is
 * summed from its first product to the last, every multiplication fused with its addition. */
void matmul_by_packed(const struct matmul_packed *packed, int m, const float *a, float beta, float *c);

#endif
