/* layer_norm -- normalizes over the last dimension (Ba, Kiros and Hinton 2016): each row of x (m, c), m =
 * samples x pixels or steps, in training and in evaluation:
 *
 *     x^ = (x - mean) / sqrt(var + epsilon)      y = gain * x^ + bias      var is divided by c
 *
 *     dgain = sum over the rows of dy x^         dbias = sum over the rows of dy
 *     dx = (g - mean of g - x^ mean of (g x^)) / sqrt(var + epsilon),      g = gain * dy */
#include <math.h>
#include <string.h>

#include "nn/layers/layer.h"
#include "shared/base/compiler.h"

enum { GAIN, BIAS };
enum { LANES = 16 }; /* of a sum; the same number on every processor, for the same bits */

static size_t channels(const struct layer_spec *s)
{
    return s->tensors[GAIN].shape[0];
}

/* x^ (m, c), then 1 / sqrt(var + epsilon) (m). */
static size_t layer_norm_work(const struct layer_spec *s, int max_batch)
{
    return (size_t)max_batch * ((size_t)s->n_in + (size_t)s->n_in / channels(s));
}

static inline float mean_of(const float lane[LANES], size_t n)
{
    float sum = 0;

    for (size_t k = 0; k < LANES; k++)
        sum += lane[k];
    return sum / (float)n;
}

static inline float mean(const float *x, size_t n)
{
    float lane[LANES] = {0};
    size_t i = 0;

    for (; i + LANES <= n; i += LANES)
        for (size_t k = 0; k < LANES; k++)
            lane[k] += x[i + k];
    for (; i < n; i++)
        lane[i % LANES] += x[i];
    return mean_of(lane, n);
}

static inline float mean_product(const float *x, const float *y, size_t n)
{
    float lane[LANES] = {0};
    size_t i = 0;

    for (; i + LANES <= n; i += LANES)
        for (size_t k = 0; k < LANES; k++)
            lane[k] += x[i + k] * y[i + k];
    for (; i < n; i++)
        lane[i % LANES] += x[i] * y[i];
    return mean_of(lane, n);
}

FAST static void forward(const struct layer *l, const float *x, const struct pass *p)
{
    const size_t c = channels(l->spec), n = (size_t)p->n * (size_t)l->spec->n_in;
    const float *restrict gain = l->params[GAIN], *restrict bias = l->params[BIAS];
    float *restrict inverse = l->work + n;

    for (size_t i = 0; i < n; i += c) {
        const float *from = x + i;
        float *y = l->y + i;
        float *restrict xh = l->work + i;
        float centre = mean(from, c);
        float variance, scale;

        for (size_t k = 0; k < c; k++)
            xh[k] = from[k] - centre;
        variance = mean_product(xh, xh, c);
        /* An overflow must become NaN: 1 / sqrt(inf) would make each x^ a harmless 0. */
        scale = isfinite(variance) ? 1 / sqrtf(variance + l->spec->norm.epsilon) : NAN;
        inverse[i / c] = scale;
        for (size_t k = 0; k < c; k++) {
            xh[k] *= scale;
            y[k] = gain[k] * xh[k] + bias[k];
        }
    }
}

FAST static void backward(const struct layer *l, const float *x, float *dy, float *dx, const struct pass *p)
{
    const size_t c = channels(l->spec), n = (size_t)p->n * (size_t)l->spec->n_in;
    const float *restrict gain = l->params[GAIN], *restrict inverse = l->work + n;
    float *restrict dgain = l->grads[GAIN], *restrict dbias = l->grads[BIAS];

    (void)x;
    memset(dgain, 0, c * sizeof *dgain);
    memset(dbias, 0, c * sizeof *dbias);
    for (size_t i = 0; i < n; i += c) {
        const float *restrict xh = l->work + i;
        float *g = dy + i;
        float along, centre;

        for (size_t k = 0; k < c; k++) {
            dbias[k] += g[k];
            dgain[k] += g[k] * xh[k];
            g[k] *= gain[k];
        }
        if (!dx)
            continue;
        centre = mean(g, c);
        along = mean_product(g, xh, c);
        for (size_t k = 0; k < c; k++)
            dx[i + k] = (g[k] - centre - xh[k] * along) * inverse[i / c];
    }
}

const struct layer_ops layer_layer_norm = {
    .in_place = true, .work = layer_norm_work, .forward = forward, .backward = backward};
