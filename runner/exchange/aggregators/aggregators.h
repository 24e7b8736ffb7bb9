/* aggregators -- robust means (shared/job/aggregate.h): each a pure function. All contributions weigh the
 * same: a faulty worker could send any weight.
 *
 * A new one is a line in shared/job/aggregate.h and a function here; one that compares whole vectors also has
 * its two halves. */
#ifndef PSGD_AGGREGATORS_H
#define PSGD_AGGREGATORS_H

#include <stdbool.h>
#include <stddef.h>

#include "shared/job/aggregate.h"

struct aggregate_input {
    int n, f;
    size_t n_params;
    const float *const *v; /* (n, n_params) */
    double *work;          /* (aggregate_work(n)): room for the function */
};

static inline size_t aggregate_work(int n)
{
    return (size_t)n * ((size_t)n + 3);
}

/* Writes the aggregate to `out` (n_params), which overlaps no input. aggregate_check has passed n and f. The
 * same bits for the same input, on every machine. */
typedef void aggregate_function(float *out, const struct aggregate_input *in);

/* The two halves of an aggregate that compares whole vectors (aggregate_compares). Where a vector lies in
 * ranges, `measure` is called for each range, the measures are added up, and `take` is called for each range
 * with the sum: together that is the aggregate of the whole vector. Both have the same input, but that `take`
 * may change the measure, and `out` must stay as it is between them.
 *
 *   krum        measure_jk = |v_j - v_k|^2
 *   geomedian   measure_jk = (v_j - z) . (v_k - z), z the median of each component, which goes to `out` */
struct aggregate_halves {
    void (*measure)(double *measure, float *out, const struct aggregate_input *in); /* (n, n), symmetric */
    void (*take)(float *out, const struct aggregate_input *in, double *measure);
};

void aggregate_krum_measure(double *measure, float *out, const struct aggregate_input *in);
void aggregate_krum_take(float *out, const struct aggregate_input *in, double *measure);
void aggregate_geomedian_measure(double *measure, float *out, const struct aggregate_input *in);
void aggregate_geomedian_take(float *out, const struct aggregate_input *in, double *measure);

#define AGGREGATE_FUNCTION(constant, name, a, b, function, of_statistics) aggregate_function function;
AGGREGATORS(AGGREGATE_FUNCTION)
#undef AGGREGATE_FUNCTION

/* Sorts n numbers, none of them NaN, from the least. */
void aggregate_sort(double *v, int n);

/* Returns the function of a kind other than the mean, for parameters or for running statistics. */
aggregate_function *aggregate_of(enum aggregate_kind kind, bool of_statistics);
/* NULL: it does not compare. */
const struct aggregate_halves *aggregate_halves(enum aggregate_kind kind);

#endif
