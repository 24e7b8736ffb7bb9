#include "nn/init.h"

#include <math.h>
#include <string.h>

static void fill(float *w, size_t n, float value)
{
    for (size_t i = 0; i < n; i++)
        w[i] = value;
}

static void uniform(float *w, size_t n, double bound, struct rng *r)
{
    for (size_t i = 0; i < n; i++)
        w[i] = (float)bound * (2 * rng_uniform(r) - 1);
}

static void normal(float *w, size_t n, double deviation, struct rng *r)
{
    for (size_t i = 0; i < n; i++)
        w[i] = (float)deviation * rng_normal(r);
}

static double dot(const float *a, const float *b, size_t n)
{
    double sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += (double)a[i] * (double)b[i];
    return sum;
}

/* Gram and Schmidt, each row's projections taken away twice, which leaves rounding errors only (Giraud et al.
 * 2005). `w` is the first of `rows` rows of `cols` values, `stride` apart; rows <= cols. */
static void orthogonal(float *w, size_t rows, size_t cols, size_t stride, struct rng *r)
{
    for (size_t i = 0; i < rows; i++) {
        float *row = w + i * stride;
        double size;

        normal(row, cols, 1, r);
        for (size_t k = 0; k < 2 * i; k++) {
            const float *other = w + k % i * stride;
            double along = dot(row, other, cols);

            for (size_t j = 0; j < cols; j++)
                row[j] -= (float)(along * (double)other[j]);
        }
        size = sqrt(dot(row, row, cols));
        for (size_t j = 0; j < cols; j++)
            row[j] = (float)((double)row[j] / size);
    }
}

static void orthogonal_blocks(float *w, const struct tensor_spec *t, struct rng *r)
{
    size_t rows = t->shape[0];
    size_t cols = tensor_spec_count(t) / rows;

    if (cols % rows == 0)
        for (size_t k = 0; k < cols; k += rows)
            orthogonal(w + k, rows, rows, cols, r);
    else
        normal(w, rows * cols, 1 / sqrt((double)rows), r); /* not made of squares: rows of length about 1 */
}

void init_tensor(float *w, const struct tensor_spec *t, struct rng *r)
{
    size_t n = tensor_spec_count(t);
    double in = (double)t->fan_in, both = (double)t->fan_in + (double)t->fan_out;

    switch (t->init) {
    case INIT_GLOROT_UNIFORM:
        uniform(w, n, sqrt(6 / both), r);
        break;
    case INIT_GLOROT_NORMAL:
        normal(w, n, sqrt(2 / both), r);
        break;
    case INIT_HE_UNIFORM:
        uniform(w, n, sqrt(6 / in), r);
        break;
    case INIT_HE_NORMAL:
        normal(w, n, sqrt(2 / in), r);
        break;
    case INIT_FAN_IN_UNIFORM:
        uniform(w, n, 1 / sqrt(in), r);
        break;
    case INIT_NORMAL:
        normal(w, n, (double)t->scale, r);
        break;
    case INIT_UNIFORM:
        uniform(w, n, (double)t->scale, r);
        break;
    case INIT_ORTHOGONAL:
        orthogonal_blocks(w, t, r);
        break;
    case INIT_ONES:
        fill(w, n, 1);
        break;
    case INIT_ZEROS:
    case N_INIT_KINDS:
        memset(w, 0, n * sizeof *w);
        break;
    }
}
