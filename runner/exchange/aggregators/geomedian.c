/* The geometric median by the smoothed Weiszfeld algorithm: z becomes the mean of the v_k with the weights
 * 1 / max(nu, |z - v_k|), again and again. Deviations from the paper: no weights w_k; z begins as the median
 * of each component, which no outlier moves, instead of the mean; nu is relative to the mean distance, as
 * gradients are of any scale, not 1e-6; and the iteration ends when z rests, not after three steps. A
 * contribution with a value that is not finite is left out. */
#include <math.h>

#include "runner/exchange/aggregators/aggregators.h"

enum { ITERATIONS_MAX = 100 };
static const double nu = 1e-6, rest = 1e-7;

static double distance(const float *z, const float *v, size_t n)
{
    double sum = 0;

    for (size_t i = 0; i < n; i++) {
        double d = (double)z[i] - (double)v[i];

        sum += d * d;
    }
    return sqrt(sum);
}

/* part[k] = 1 / max(nu, |z - v_k|), scaled to the sum 1. Returns the mean distance; 0: all finite
 * contributions are z, or there is none. */
static double weigh(double *part, const struct aggregate_input *in, const float *z)
{
    double mean = 0, total = 0;
    int n_finite = 0;

    for (int k = 0; k < in->n; k++) {
        part[k] = distance(z, in->v[k], in->n_params);
        mean += isfinite(part[k]) ? part[k] : 0;
        n_finite += isfinite(part[k]) != 0;
    }
    if (mean == 0)
        return 0;
    mean /= n_finite;
    for (int k = 0; k < in->n; k++) {
        part[k] = isfinite(part[k]) ? 1 / fmax(nu * mean, part[k]) : 0;
        total += part[k];
    }
    for (int k = 0; k < in->n; k++)
        part[k] /= total;
    return mean;
}

/* z = sum_k part[k] v_k. Returns how far z has moved. */
static double move(float *z, const struct aggregate_input *in, const double *part)
{
    double moved = 0;

    for (size_t i = 0; i < in->n_params; i++) {
        double sum = 0, d;

        for (int k = 0; k < in->n; k++)
            if (part[k] > 0)
                sum += part[k] * (double)in->v[k][i];
        d = sum - (double)z[i];
        moved += d * d;
        z[i] = (float)sum;
    }
    return sqrt(moved);
}

void aggregate_geomedian(float *out, const struct aggregate_input *in)
{
    double mean;

    aggregate_median(out, in);
    for (int t = 0; t < ITERATIONS_MAX; t++) {
        mean = weigh(in->work, in, out);
        if (mean == 0 || move(out, in, in->work) <= rest * mean)
            return;
    }
}
