/* batch_norm -- normalizes over all but the last dimension (Ioffe and Szegedy 2015). x is (m, c), m =
 * samples x pixels of an image or steps of a sequence, and for each channel
 *
 *     y = gain (x - mean) / sqrt(var + epsilon) + bias
 *
 * Training: mean and var (divided by m) of the batch; in the running statistics var is divided by m - 1, as
 * in PyTorch. With one value per channel (m = 1) y is the bias, and the running variance does not change.
 * Evaluation: the running statistics.
 *
 * Backward, with x^ = (x - mean) / sqrt(var + epsilon):
 *
 *     dgain = sum of dy x^      dbias = sum of dy
 *     dx = gain / sqrt(var + epsilon) (dy - dbias / m - x^ dgain / m)
 *
 * With few channels, several rows are processed as one row of `wide` values. Sums are computed in blocks
 * that stay in the cache, which also keeps rounding errors small; the blocks' moments are combined as in
 * Chan, Golub and LeVeque (1979). */
#include <math.h>
#include <string.h>

#include "nn/layers/layer.h"
#include "shared/base/compiler.h"

enum { GAIN, BIAS, MEAN, VAR };
enum { WIDE = 64, BLOCK = 4096 }; /* values: least of a row; about that of a block */

/* `work`: rows of `wide` values, of which the first c are used if there is one for each channel. */
enum { BATCH_MEAN, BATCH_M2, INVERSE, CENTRE, FACTOR_X, FACTOR_DY, OFFSET, SUM, SUM_2, N_ROWS };

static size_t channels(const struct layer_spec *s)
{
    return s->tensors[GAIN].shape[0];
}

static size_t wide(const struct layer_spec *s)
{
    size_t c = channels(s);

    return (WIDE + c - 1) / c * c;
}

static float *row(const struct layer *l, int i)
{
    return l->work + (size_t)i * wide(l->spec);
}

static size_t batch_norm_work(const struct layer_spec *s, int max_batch)
{
    (void)max_batch;
    return N_ROWS * wide(s);
}

static size_t block_of(const struct layer *l)
{
    size_t w = wide(l->spec);

    return w < BLOCK ? BLOCK / w * w : w;
}

static size_t min_size(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Repeats the first c values. */
static void widen(float *v, size_t c, size_t w)
{
    for (size_t i = c; i < w; i += c)
        memcpy(v + i, v, c * sizeof *v);
}

/* Sums the values of each channel into the first c. */
static void fold(float *v, size_t c, size_t w)
{
    for (size_t i = c; i < w; i += c)
        for (size_t k = 0; k < c; k++)
            v[k] += v[i + k];
}

/* The sum functions add n values in rows of w; the last row may be shorter. */
FAST static void sum_up(float *restrict sum, const float *x, size_t n, size_t w)
{
    memset(sum, 0, w * sizeof *sum);
    for (size_t i = 0; i < n; i += w) {
        size_t here = n - i < w ? n - i : w;

        for (size_t k = 0; k < here; k++)
            sum[k] += x[i + k];
    }
}

/* of (x - centre)^2 */
FAST static void sum_squares(float *restrict sum, const float *x, const float *restrict centre, size_t n,
                             size_t w)
{
    memset(sum, 0, w * sizeof *sum);
    for (size_t i = 0; i < n; i += w) {
        size_t here = n - i < w ? n - i : w;

        for (size_t k = 0; k < here; k++)
            sum[k] += (x[i + k] - centre[k]) * (x[i + k] - centre[k]);
    }
}

/* of dy and of dy (x - centre) */
FAST static void sum_gradients(float *restrict sum, float *restrict sum_2, const float *restrict dy,
                               const float *restrict x, const float *restrict centre, size_t n, size_t w)
{
    memset(sum, 0, w * sizeof *sum);
    memset(sum_2, 0, w * sizeof *sum_2);
    for (size_t i = 0; i < n; i += w) {
        size_t here = n - i < w ? n - i : w;

        for (size_t k = 0; k < here; k++) {
            sum[k] += dy[i + k];
            sum_2[k] += dy[i + k] * (x[i + k] - centre[k]);
        }
    }
}

/* Mean of the batch, and M2, the sum of squared distances from it. */
static void batch_moments(const struct layer *l, const float *x, size_t n)
{
    const size_t c = channels(l->spec), w = wide(l->spec), block = block_of(l);
    float *mean = row(l, BATCH_MEAN), *m2 = row(l, BATCH_M2);
    float *centre = row(l, CENTRE), *squares = row(l, SUM_2);

    memset(mean, 0, c * sizeof *mean);
    memset(m2, 0, c * sizeof *m2);
    for (size_t i = 0; i < n; i += block) {
        size_t here = min_size(block, n - i);
        float rows = (float)(here / c), all = (float)((i + here) / c);

        sum_up(centre, x + i, here, w);
        fold(centre, c, w);
        for (size_t k = 0; k < c; k++)
            centre[k] /= rows;
        widen(centre, c, w);
        sum_squares(squares, x + i, centre, here, w);
        fold(squares, c, w);
        for (size_t k = 0; k < c; k++) {
            float apart = centre[k] - mean[k];

            mean[k] += apart * (rows / all);
            m2[k] += squares[k] + apart * apart * (rows * ((all - rows) / all));
        }
    }
}

/* y = (x - centre) factor + offset */
FAST static void apply(float *restrict y, const float *restrict x, const float *restrict centre,
                       const float *restrict factor, const float *restrict offset, size_t n, size_t w)
{
    for (size_t i = 0; i < n; i += w) {
        size_t here = n - i < w ? n - i : w;

        for (size_t k = 0; k < here; k++)
            y[i + k] = (x[i + k] - centre[k]) * factor[k] + offset[k];
    }
}

/* The batch's statistics, in place of gradients. */
static void keep_statistics(const struct layer *l, size_t m)
{
    for (size_t k = 0; k < channels(l->spec); k++) {
        l->grads[MEAN][k] = row(l, BATCH_MEAN)[k];
        l->grads[VAR][k] = m > 1 ? row(l, BATCH_M2)[k] / (float)(m - 1) : l->params[VAR][k];
    }
}

static void batch_norm_forward(const struct layer *l, const float *x, const struct pass *p)
{
    const size_t c = channels(l->spec), w = wide(l->spec), n = (size_t)p->n * (size_t)l->spec->n_in;
    float *centre = row(l, CENTRE), *factor = row(l, FACTOR_X), *offset = row(l, OFFSET);

    if (p->is_training) {
        batch_moments(l, x, n);
        keep_statistics(l, n / c);
    }
    for (size_t k = 0; k < c; k++) {
        float var = p->is_training ? row(l, BATCH_M2)[k] / (float)(n / c) : l->params[VAR][k];

        row(l, INVERSE)[k] = 1 / sqrtf(var + l->spec->norm.epsilon);
        centre[k] = p->is_training ? row(l, BATCH_MEAN)[k] : l->params[MEAN][k];
        factor[k] = l->params[GAIN][k] * row(l, INVERSE)[k];
        offset[k] = l->params[BIAS][k];
    }
    widen(centre, c, w);
    widen(factor, c, w);
    widen(offset, c, w);
    apply(l->y, x, centre, factor, offset, n, w);
}

/* dx = dy factor_dy + (x - centre) factor_x + offset */
FAST static void apply_backward(float *restrict dx, const float *restrict dy, const float *restrict x,
                                const float *restrict centre, const float *restrict factor_dy,
                                const float *restrict factor_x, const float *restrict offset, size_t n,
                                size_t w)
{
    for (size_t i = 0; i < n; i += w) {
        size_t here = n - i < w ? n - i : w;

        for (size_t k = 0; k < here; k++)
            dx[i + k] = dy[i + k] * factor_dy[k] + (x[i + k] - centre[k]) * factor_x[k] + offset[k];
    }
}

static void batch_norm_backward(const struct layer *l, const float *x, float *dy, float *dx,
                                const struct pass *p)
{
    const size_t c = channels(l->spec), w = wide(l->spec), n = (size_t)p->n * (size_t)l->spec->n_in;
    const size_t block = block_of(l);
    const float m = (float)(n / c);
    float *dgain = l->grads[GAIN], *dbias = l->grads[BIAS];
    float *sum = row(l, SUM), *sum_2 = row(l, SUM_2), *centre = row(l, CENTRE);

    memset(dgain, 0, c * sizeof *dgain);
    memset(dbias, 0, c * sizeof *dbias);
    for (size_t i = 0; i < n; i += block) {
        sum_gradients(sum, sum_2, dy + i, x + i, centre, min_size(block, n - i), w);
        fold(sum, c, w);
        fold(sum_2, c, w);
        for (size_t k = 0; k < c; k++) {
            dbias[k] += sum[k];
            dgain[k] += sum_2[k] * row(l, INVERSE)[k];
        }
    }
    if (!dx)
        return;
    for (size_t k = 0; k < c; k++) {
        float factor = l->params[GAIN][k] * row(l, INVERSE)[k];

        row(l, FACTOR_DY)[k] = factor;
        row(l, FACTOR_X)[k] = -factor * row(l, INVERSE)[k] * dgain[k] / m;
        row(l, OFFSET)[k] = -factor * dbias[k] / m;
    }
    widen(row(l, FACTOR_DY), c, w);
    widen(row(l, FACTOR_X), c, w);
    widen(row(l, OFFSET), c, w);
    apply_backward(dx, dy, x, centre, row(l, FACTOR_DY), row(l, FACTOR_X), row(l, OFFSET), n, w);
}

const struct layer_ops layer_batch_norm = {
    .work = batch_norm_work, .forward = batch_norm_forward, .backward = batch_norm_backward};
