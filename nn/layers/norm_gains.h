/* norm_gains -- the gradients of gains and biases, which layers that normalize rows sum over all rows. Rows
 * are divided into blocks whose number does not depend on that of the threads, with a sum each, so that the
 * bits do not either. */
#ifndef PSGD_NORM_GAINS_H
#define PSGD_NORM_GAINS_H

#include <stddef.h>

enum { NORM_BLOCKS = 16 };

/* The first row of a block of m rows. */
static inline size_t norm_block_start(size_t m, size_t block)
{
    return m * block / NORM_BLOCKS;
}

/* sum (n) = the sum of NORM_BLOCKS rows of `parts`. */
static inline void norm_add_blocks(float *restrict sum, const float *restrict parts, size_t n)
{
    for (size_t k = 0; k < n; k++)
        sum[k] = parts[k];
    for (size_t block = 1; block < NORM_BLOCKS; block++)
        for (size_t k = 0; k < n; k++)
            sum[k] += parts[block * n + k];
}

#endif
