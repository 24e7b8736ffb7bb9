/* Krum: the contribution that is nearest to its n - f - 2 nearest neighbors. Of equal ones the first. */
#include <math.h>
#include <string.h>

#include "runner/exchange/aggregators/aggregators.h"

static double distance(const struct aggregate_input *in, int a, int b)
{
    double sum = 0;

    for (size_t i = 0; i < in->n_params; i++) {
        double d = (double)in->v[a][i] - (double)in->v[b][i];

        sum += d * d;
    }
    return isnan(sum) ? INFINITY : sum;
}

/* Sorts row k of the distances: the first is 0, that to itself. */
static double score(const struct aggregate_input *in, int k)
{
    double *row = in->work + (size_t)k * (size_t)in->n, sum = 0;

    aggregate_sort(row, in->n);
    for (int j = 1; j <= in->n - in->f - 2; j++)
        sum += row[j];
    return sum;
}

void aggregate_krum(float *out, const struct aggregate_input *in)
{
    size_t n = (size_t)in->n;
    double least = INFINITY;
    int best = 0;

    for (int a = 0; a < in->n; a++) {
        in->work[(size_t)a * n + (size_t)a] = 0;
        for (int b = 0; b < a; b++)
            in->work[(size_t)a * n + (size_t)b] = in->work[(size_t)b * n + (size_t)a] = distance(in, a, b);
    }
    for (int k = 0; k < in->n; k++) {
        double s = score(in, k);

        if (s < least) {
            least = s;
            best = k;
        }
    }
    memcpy(out, in->v[best], in->n_params * sizeof *out);
}
