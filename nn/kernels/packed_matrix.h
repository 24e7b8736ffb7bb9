/* packed_matrix -- the second operand of several products, packed once. The libraries pack it for each
 * product, which takes a good part of the time if the first operand has few rows. */
#ifndef PSGD_PACKED_MATRIX_H
#define PSGD_PACKED_MATRIX_H

#include <stdbool.h>
#include <stddef.h>

struct packed_matrix {
    bool is_t;
    int n, k;
    const float *b; /* the caller's */
    /* (k, 16) for each 16 columns of op(b); the last one is padded with zeros. NULL: the libraries compute
     * with b. */
    const float *panels;
};

/* Floats that packed_matrix_pack() needs for b (k, n) or (n, k). */
size_t packed_matrix_size(int n, int k);

/* op(b) (k, n); op(b) = b, or its transpose if `b_t`. b and `space` must outlive f. */
void packed_matrix_pack(struct packed_matrix *f, bool b_t, int n, int k, const float *b, float *space);

/* c (m, n) = a (m, k) op(b) (k, n) + beta c, for beta 0 or 1. With panels, each value of the result is
 * summed from its first product to the last, every multiplication fused with its addition. */
void packed_matrix_multiply(const struct packed_matrix *f, int m, const float *a, float beta, float *c);

#endif
