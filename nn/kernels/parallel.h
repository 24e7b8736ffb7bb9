/* parallel -- loops over several threads, as many as products use (blas.h), for kernels that no library
 * computes. A result must not depend on how the loop is cut: then its bits are the same for every number of
 * threads. */
#ifndef PSGD_PARALLEL_H
#define PSGD_PARALLEL_H

#include <stddef.h>

/* Handles iterations from .. to - 1. Called by several threads at a time, for different iterations. */
typedef void parallel_part(void *arg, size_t from, size_t to);

/* Handles iterations 0 .. n - 1, cut into one part for each thread, and returns when all are done. The
 * calling thread takes part. The first call that needs threads starts them, so not before
 * blas_start_threads(); without them, as after a fork, the calling thread handles all. Not to be called from
 * a part. */
void parallel_for(size_t n, parallel_part *part, void *arg);

#endif
