/* aggregators -- robust means (shared/job/aggregate.h): each a pure function. All contributions weigh the
 * same: a faulty worker could send any weight.
 *
 * A new one is a line in shared/job/aggregate.h and a function here. */
#ifndef PSGD_AGGREGATORS_H
#define PSGD_AGGREGATORS_H

#include <stddef.h>

#include "shared/job/aggregate.h"

struct aggregate_input {
    int n, f;
    size_t n_params;
    const float *const *v; /* (n, n_params) */
    double *work;          /* (n, n): room for the function */
};

/* Writes the aggregate to `out` (n_params), which overlaps no input. aggregate_check has passed n and f. The
 * same bits for the same input, on every machine. */
typedef void aggregate_function(float *out, const struct aggregate_input *in);

#define AGGREGATE_FUNCTION(constant, name, a, b, function, of_statistics) aggregate_function function;
AGGREGATORS(AGGREGATE_FUNCTION)
#undef AGGREGATE_FUNCTION

/* Sorts n numbers, none of them NaN, from the least. */
void aggregate_sort(double *v, int n);

/* Returns the function of a kind other than the mean, for parameters or for running statistics. */
aggregate_function *aggregate_of(enum aggregate_kind kind, bool of_statistics);

#endif
