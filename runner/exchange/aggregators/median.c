/* Aggregates of each component by itself: its values are sorted. A value that is not a number counts as
 * infinite, so that it is trimmed like any other outlier. */
#include <math.h>

#include "runner/exchange/aggregators/aggregators.h"

/* Returns the mean of the sorted values from `first` on, n - 2 first of them. */
static float mean_of_middle(const struct aggregate_input *in, size_t i, int first)
{
    double sum = 0;

    for (int k = 0; k < in->n; k++)
        in->work[k] = isnan(in->v[k][i]) ? INFINITY : (double)in->v[k][i];
    aggregate_sort(in->work, in->n);
    for (int k = first; k < in->n - first; k++)
        sum += in->work[k];
    return (float)(sum / (in->n - 2 * first));
}

void aggregate_median(float *out, const struct aggregate_input *in)
{
    for (size_t i = 0; i < in->n_params; i++)
        out[i] = mean_of_middle(in, i, (in->n - 1) / 2);
}

void aggregate_trimmed(float *out, const struct aggregate_input *in)
{
    for (size_t i = 0; i < in->n_params; i++)
        out[i] = mean_of_middle(in, i, in->f);
}
