#include "nn/init.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "nn/kernels/lanes.h"
#include "shared/base/compiler.h"

enum { TOGETHER = 4, COLUMNS = 64 }; /* rows, columns processed per read of a reflector */

static void fill_vector(float *w, size_t n, float value)
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

/* Sets v (m values, `step` apart) to the reflector x/|x| + s e_k of a Gaussian x that is zero before its
 * k-th value, s the sign of x_k, scaled to length sqrt(2), so that H_k = I - v v'. */
static void draw_reflector(float *v, size_t k, size_t m, size_t step, struct rng *r)
{
    double size = 0, more;

    for (size_t j = 0; j < m; j++) {
        v[j * step] = j < k ? 0 : rng_normal(r);
        size += (double)v[j * step] * (double)v[j * step];
    }
    size = sqrt(size);
    more = 1 + fabs((double)v[k * step]) / size;
    v[k * step] = (float)((double)v[k * step] + copysign(size, (double)v[k * step]));
    for (size_t j = k; j < m; j++)
        v[j * step] = (float)((double)v[j * step] / (size * sqrt(more)));
}

/* row = row H for n rows: row -= (row . v) v. v is zero before `begin`. */
static inline void reflect(float *rows, size_t n, size_t stride, const float *restrict v, size_t begin,
                           size_t m)
{
    const size_t start = begin - begin % SUMS, whole = m - m % SUMS;
    lanes sum[TOGETHER][SUMS / LANES] = {0};
    float along[TOGETHER];

    for (size_t j = start; j < whole; j += SUMS)
        for (size_t q = 0; q < SUMS / LANES; q++) {
            lanes a, b;

            LANES_READ(a, v + j + q * LANES);
            for (size_t i = 0; i < n; i++) {
                LANES_READ(b, rows + i * stride + j + q * LANES);
                sum[i][q] += a * b;
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

/* n <= m orthonormal rows of m values: the first rows of a Haar-distributed Q = D H_(m-1) ... H_1 H_0
 * (Stewart 1980), D the signs that make Q that of a QR decomposition with positive diagonal. Row i is e_i'
 * D H_i ... H_0, because the reflectors after i do not change e_i. Rows are computed from the last to the
 * first, each in place of its reflector, which is not needed any more. */
FAST static void orthonormal_rows(float *q, size_t n, size_t m, size_t stride)
{
    for (size_t end = n, first; end > 0; end = first) {
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

/* The same for n < m columns of m values. Column k is the reflector applied to the columns after it, a few
 * at a time. */
FAST static void orthonormal_columns(float *q, size_t n, size_t m, size_t stride)
{
    for (size_t k = n; k-- > 0;) {
        const float own = q[k * stride + k];

        for (size_t first = k + 1, width; first < n; first += width) {
            double along[COLUMNS] = {0};

            width = n - first < COLUMNS ? n - first : COLUMNS;
            for (size_t j = k; j < m; j++) {
                const float *row = q + j * stride, v = row[k];

                for (size_t i = 0; i < width; i++)
                    along[i] += (double)v * (double)row[first + i];
            }
            for (size_t j = k; j < m; j++) {
                float *row = q + j * stride, v = row[k];

                for (size_t i = 0; i < width; i++)
                    row[first + i] -= v * (float)along[i];
            }
        }
        for (size_t j = k; j < m; j++)
            q[j * stride + k] *= fabsf(own);
        q[k * stride + k] -= copysignf(1, own);
    }
}

/* One matrix from all inputs to all outputs, or one for each gate. */
static void orthogonal(float *w, const struct tensor_spec *t, struct rng *r)
{
    size_t stride = t->shape[t->n_dims - 1];
    size_t rows = tensor_spec_count(t) / stride;
    size_t cols = t->fan_out < stride ? t->fan_out : stride;

    assert(cols > 0 && stride % cols == 0);
    for (size_t at = 0; at < stride; at += cols) {
        float *q = w + at;

        for (size_t k = 0; k < rows && k < cols; k++)
            draw_reflector(rows <= cols ? q + k * stride : q + k, k, rows <= cols ? cols : rows,
                           rows <= cols ? 1 : stride, r);
        if (rows <= cols)
            orthonormal_rows(q, rows, cols, stride);
        else
            orthonormal_columns(q, cols, rows, stride);
    }
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
        orthogonal(w, t, r);
        break;
    case INIT_ONES:
        fill_vector(w, n, 1);
        break;
    case INIT_ZEROS:
    case N_INIT_KINDS:
        memset(w, 0, n * sizeof *w);
        break;
    }
}
