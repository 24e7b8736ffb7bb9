/* parallel -- loops over several threads, as many as products use (blas.h), for kernels that no library
 * computes. A result must not depend on how the loop is cut: then its bits are the same for every number of
 * threads. */
#ifndef PSGD_PARALLEL_H
#define PSGD_PARALLEL_H

#include <stddef.h>

enum { PARALLEL_MOST = 64 /* parts of a loop */ };

/* Handles iterations from .. to - 1, part k. Called by several threads at a time, for different parts. */
typedef void parallel_part(void *arg, int k, size_t from, size_t to);

/* Handles iterations 0 .. n - 1, cut into one part for each thread, at most `most`, and returns when all are
 * done. The calling thread takes part. The first call that needs threads starts them, so not before
 * blas_start_threads(); without them, as after a fork, the calling thread handles all. Not to be called from
 * a part. */
void parallel_for(size_t n, int most, parallel_part *part, void *arg);
/* Returns the most parts of a loop with the present number of threads. */
int parallel_parts(void);
/* parallel_for() over n values, or rows of several, `values` in all; in one part where they are so few that
 * waking threads takes longer. */
void parallel_for_values(size_t n, size_t values, parallel_part *part, void *arg);

#endif
