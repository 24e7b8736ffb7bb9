/* The geometric median by the smoothed Weiszfeld algorithm: z becomes the mean of the v_k with the weights
 * 1 / max(nu, |z - v_k|), again and again. Deviations from the paper: no weights w_k; z begins as the median
 * of each component, which no outlier moves, instead of the mean; nu is relative to the mean distance, as
 * gradients are of any scale, not 1e-6; and the iteration ends when z rests, not after three steps. A
 * contribution with a value that is not finite is left out.
 *
 * All distances follow from the products of u_k = v_k - z_0, z_0 the first z: with G_jk = u_j . u_k and
 * z = sum_j p_j v_j, where the p_j sum to 1,
 *
 *     |z - v_k|^2 = p' G p - 2 (G p)_k + G_kk
 *
 * so that the iteration needs the vectors only for G and for the last z. G is of products with z_0, not of
 * distances between contributions: an outlier's p_j falls as its u_j grows, so that no term drowns the
 * others. */
#include <math.h>
#include <string.h>

#include "runner/exchange/aggregators/aggregators.h"

enum { ITERATIONS_MAX = 100, LANES = 4, PIECE = 1024 };
static const double nu = 1e-6, rest = 1e-7;

/* The iteration's view of G (n, n): `of` numbers for each contribution. */
struct weiszfeld {
    int n;
    const double *g;
    double *part, *product; /* (n) p and G p; p of a contribution that is not finite is 0 */
    double square;          /* p' G p */
};

static bool is_finite(const struct weiszfeld *w, int k)
{
    return isfinite(w->g[k * w->n + k]);
}

/* v' G v; `product` (n) becomes G v. */
static double multiply(double *product, const struct weiszfeld *w, const double *v)
{
    double square = 0;

    for (int k = 0; k < w->n; k++) {
        product[k] = 0;
        for (int j = 0; is_finite(w, k) && j < w->n; j++)
            if (is_finite(w, j))
                product[k] += w->g[k * w->n + j] * v[j];
        square += v[k] * product[k];
    }
    return fmax(square, 0);
}

/* |z - v_k|; z is z_0 while all parts are 0. */
static double distance(const struct weiszfeld *w, int k)
{
    return sqrt(fmax(w->square - 2 * w->product[k] + w->g[k * w->n + k], 0));
}

/* next[k] = 1 / max(nu, |z - v_k|), scaled to the sum 1. Returns the mean distance; 0: all finite
 * contributions are z, or there is none. */
static double weigh_inputs(double *next, const struct weiszfeld *w)
{
    double mean = 0, total = 0;
    int n_finite = 0;

    for (int k = 0; k < w->n; k++) {
        next[k] = is_finite(w, k) ? distance(w, k) : 0;
        mean += next[k];
        n_finite += is_finite(w, k);
    }
    if (mean == 0)
        return 0;
    mean /= n_finite;
    for (int k = 0; k < w->n; k++) {
        next[k] = is_finite(w, k) ? 1 / fmax(nu * mean, next[k]) : 0;
        total += next[k];
    }
    for (int k = 0; k < w->n; k++)
        next[k] /= total;
    return mean;
}

/* Takes over the next parts; they become the change. Returns how far z has moved. */
static double move_mean(struct weiszfeld *w, double *next)
{
    double moved;

    for (int k = 0; k < w->n; k++) {
        double part = next[k];

        next[k] -= w->part[k];
        w->part[k] = part;
    }
    moved = sqrt(multiply(w->product, w, next));
    w->square = multiply(w->product, w, w->part);
    return moved;
}

/* Adds to sum[k] the product of u_a and u_(b + k) over components [from, to), for k < LANES: sums that do not
 * wait for each other. */
static void multiply_vectors(double sum[LANES], const struct aggregate_input *in, const float *z, size_t a,
                             size_t b, size_t from, size_t to)
{
    const float *v[LANES];

    for (size_t k = 0; k < LANES; k++)
        v[k] = in->v[b + k < (size_t)in->n ? b + k : b];
    for (size_t i = from; i < to; i++) {
        double u = (double)in->v[a][i] - (double)z[i];

        for (size_t k = 0; k < LANES; k++)
            sum[k] += u * ((double)v[k][i] - (double)z[i]);
    }
}

/* Piece by piece, as all vectors do not fit the processor's cache. */
void aggregate_geomedian_measure(double *measure, float *out, const struct aggregate_input *in)
{
    size_t n = (size_t)in->n;

    aggregate_median(out, in);
    memset(measure, 0, n * n * sizeof *measure);
    for (size_t from = 0; from < in->n_params; from += PIECE) {
        size_t to = in->n_params - from < PIECE ? in->n_params : from + PIECE;

        for (size_t a = 0; a < n; a++)
            for (size_t b = 0; b <= a; b += LANES) {
                double sum[LANES] = {0};

                for (size_t k = 0; k < LANES && b + k <= a; k++)
                    sum[k] = measure[a * n + b + k];
                multiply_vectors(sum, in, out, a, b, from, to);
                for (size_t k = 0; k < LANES && b + k <= a; k++)
                    measure[a * n + b + k] = measure[(b + k) * n + a] = sum[k];
            }
    }
}

void aggregate_geomedian_take(float *out, const struct aggregate_input *in, double *measure)
{
    size_t n = (size_t)in->n;
    double *next = in->work;
    struct weiszfeld w = {.n = in->n, .g = measure, .part = next + n, .product = next + 2 * n};
    bool is_moved = false;

    memset(in->work, 0, 3 * n * sizeof *in->work);
    for (int t = 0; t < ITERATIONS_MAX; t++) {
        double mean = weigh_inputs(next, &w);

        if (mean == 0)
            break;
        is_moved = true;
        if (move_mean(&w, next) <= rest * mean)
            break;
    }
    for (size_t i = 0; is_moved && i < in->n_params; i++) {
        double sum = 0;

        for (int k = 0; k < in->n; k++)
            if (w.part[k] > 0)
                sum += w.part[k] * (double)in->v[k][i];
        out[i] = (float)sum;
    }
}
