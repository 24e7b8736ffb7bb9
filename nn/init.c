#include "nn/init.h"

#include <math.h>
#include <string.h>

#include "nn/fast.h"
#include "nn/lanes.h"

enum { TOGETHER = 4 }; /* rows that a reflector is read for once */

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

/* Row k becomes the reflector v = x/|x| + s e_k, s the sign of x_k, of a Gaussian x that is zero before its
 * k-th value; of length sqrt(2), so that H_k = I - v v'. */
static void draw_reflectors(float *q, size_t m, size_t stride, struct rng *r)
{
    for (size_t k = 0; k < m; k++) {
        float *v = q + k * stride;
        double size, more;

        memset(v, 0, k * sizeof *v);
        normal(v + k, m - k, 1, r);
        size = sqrt(dot(v + k, v + k, m - k));
        more = 1 + fabs((double)v[k]) / size;
        v[k] = (float)((double)v[k] + copysign(size, (double)v[k]));
        for (size_t j = k; j < m; j++)
            v[j] = (float)((double)v[j] / (size * sqrt(more)));
    }
}

/* row = row H for n rows: row -= (row . v) v. What lies before `begin` is zero in v. */
static inline void reflect(float *rows, size_t n, size_t stride, const float *restrict v, size_t begin,
                           size_t m)
{
    const size_t start = begin - begin % LANES, whole = m - m % LANES;
    lanes sum[TOGETHER] = {0};
    float along[TOGETHER];

    for (size_t j = start; j < whole; j += LANES) {
        lanes a, b;

        LANES_READ(a, v + j);
        for (size_t i = 0; i < n; i++) {
            LANES_READ(b, rows + i * stride + j);
            sum[i] += a * b;
        }
    }
    for (size_t i = 0; i < n; i++) {
        float *restrict row = rows + i * stride;

        along[i] = LANES_SUM(sum[i]);
        for (size_t j = whole; j < m; j++)
            along[i] += row[j] * v[j];
        for (size_t j = start; j < m; j++)
            row[j] -= along[i] * v[j];
    }
}

/* Haar-distributed Q = D H_(m-1) ... H_1 H_0 as Stewart 1980 has it, D the signs that make Q that of a QR
 * decomposition with positive diagonal. Row i is e_i' D H_i ... H_0, the reflectors after i leave e_i alone:
 * so rows are made from the last to the first, each in the place of the reflector that no other needs any
 * more. */
FAST static void orthogonal(float *q, size_t m, size_t stride)
{
    for (size_t end = m, first; end > 0; end = first) {
        first = end > TOGETHER ? end - TOGETHER : 0;
        for (size_t i = end; i-- > first;) {
            float *row = q + i * stride;
            float own = row[i];

            for (size_t j = i; j < m; j++)
                row[j] *= fabsf(own);
            row[i] -= copysignf(1, own);
            for (size_t k = i; k-- > first;)
                reflect(row, 1, stride, q + k * stride, k, m);
        }
        for (size_t k = first; k-- > 0;)
            reflect(q + first * stride, TOGETHER, stride, q + k * stride, k, m);
    }
}

static void orthogonal_blocks(float *w, const struct tensor_spec *t, struct rng *r)
{
    size_t rows = t->shape[0];
    size_t cols = tensor_spec_count(t) / rows;

    if (cols % rows == 0)
        for (size_t k = 0; k < cols; k += rows) {
            draw_reflectors(w + k, rows, cols, r);
            orthogonal(w + k, rows, cols);
        }
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
