/* Krum: the contribution that is nearest to its n - f - 2 nearest neighbors. Of equal ones the first. */
#include <math.h>
#include <string.h>

#include "runner/exchange/aggregators/aggregators.h"

static double square_distance(const struct aggregate_input *in, size_t a, size_t b)
{
    double sum = 0;

    for (size_t i = 0; i < in->n_params; i++) {
        double d = (double)in->v[a][i] - (double)in->v[b][i];

        sum += d * d;
    }
    return sum;
}

void aggregate_krum_measure(double *measure, float *out, const struct aggregate_input *in)
{
    size_t n = (size_t)in->n;

    (void)out;
    for (size_t a = 0; a < n; a++) {
        measure[a * n + a] = 0;
        for (size_t b = 0; b < a; b++)
            measure[a * n + b] = measure[b * n + a] = square_distance(in, a, b);
    }
}

/* Sorts a row of distances: the first is 0, that to itself. */
static double score(const struct aggregate_input *in, double *row)
{
    double sum = 0;

    for (int j = 0; j < in->n; j++)
        row[j] = isnan(row[j]) ? INFINITY : row[j];
    aggregate_sort(row, in->n);
    for (int j = 1; j <= in->n - in->f - 2; j++)
        sum += row[j];
    return sum;
}

void aggregate_krum_take(float *out, const struct aggregate_input *in, double *measure)
{
    double least = INFINITY;
    int best = 0;

    for (int k = 0; k < in->n; k++) {
        double s = score(in, measure + (size_t)k * (size_t)in->n);

        if (s < least) {
            least = s;
            best = k;
        }
    }
    memcpy(out, in->v[best], in->n_params * sizeof *out);
}
