/* packed_matrix -- the second factor of several products. The libraries lay it out anew for each of them,
 * which takes a good part of the time where the first factor has few rows; here that is done once. */
#ifndef PSGD_PACKED_MATRIX_H
#define PSGD_PACKED_MATRIX_H

#include <stdbool.h>
#include <stddef.h>

struct packed_matrix {
    bool is_t;
    int n, k;
    const float *b; /* the caller's */
    /* (k, 16) each, of 16 columns; zeros fill up the last one. NULL: the libraries are to take b. */
    const float *panels;
};

/* Floats that packed_matrix_pack() needs for a factor (k, n) or (n, k). */
size_t packed_matrix_size(int n, int k);

/* op(b) (k, n); op(b) = b, or its transpose where `b_t` says so. b and `space` must outlive the use of f. */
void packed_matrix_pack(struct packed_matrix *f, bool b_t, int n, int k, const float *b, float *space);

/* c (m, n) = a (m, k) op(b) (k, n) + beta c, for beta 0 or 1. In panels, each value of the result is summed
 * up from its first product to the last, every multiplication fused with its addition. */
void packed_matrix_multiply(const struct packed_matrix *f, int m, const float *a, float beta, float *c);

#endif
