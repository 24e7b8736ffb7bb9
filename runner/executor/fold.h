/* fold -- sums, products, greatest and least of vectors of doubles or floats. */
#ifndef PSGD_FOLD_H
#define PSGD_FOLD_H

#include <stddef.h>

#include "codecs/executor.h"

/* acc[i] = acc[i] (how) v[i] for i < n. The greatest, or least, of NAN and a number is NAN. */
typedef void fold_fn(void *acc, const void *v, size_t n);

enum fold_type { FOLD_DOUBLE, FOLD_FLOAT };

/* NULL: no such fold. */
fold_fn *fold_of(enum fold_type type, enum executor_fold how);

#endif
