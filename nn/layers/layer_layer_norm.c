/* layer_norm -- normalizes over the last dimension (Ba, Kiros and Hinton 2016): each row of x (m, c), m =
 * samples x pixels or steps, in training and in evaluation; the bias may be absent:
 *
 *     x^ = (x - mean) / sqrt(var + epsilon)      y = gain * x^ + bias      var is divided by c
 *
 *     dgain = sum over the rows of dy x^         dbias = sum over the rows of dy
 *     dx = (g - mean of g - x^ mean of (g x^)) / sqrt(var + epsilon),      g = gain * dy */
#include <math.h>
#include <string.h>

#include "nn/layers/layer.h"
#include "nn/layers/row_mean.h"
#include "shared/base/compiler.h"

enum { GAIN, BIAS };

static size_t channels(const struct layer_spec *s)
{
    return s->tensors[GAIN].shape[0];
}

static bool has_bias(const struct layer_spec *s)
{
    return s->n_tensors > BIAS;
}

/* x^ (m, c), then 1 / sqrt(var + epsilon) (m). */
static size_t layer_norm_work(const struct layer_spec *s, int max_batch)
{
    return (size_t)max_batch * ((size_t)s->n_in + (size_t)s->n_in / channels(s));
}

FAST static void forward(const struct layer *l, const float *x, const struct pass *p)
{
    const size_t c = channels(l->spec), n = (size_t)p->n * (size_t)l->spec->n_in;
    const float *restrict gain = l->params[GAIN], *restrict bias = has_bias(l->spec) ? l->params[BIAS] : NULL;
    float *restrict inverse = l->work + n;

    for (size_t i = 0; i < n; i += c) {
        const float *from = x + i;
        float *y = l->y + i;
        float *restrict xh = l->work + i;
        float centre = row_mean(from, c);
        float variance, scale;

        for (size_t k = 0; k < c; k++)
            xh[k] = from[k] - centre;
        variance = row_mean_product(xh, xh, c);
        /* An overflow must become NaN: 1 / sqrt(inf) would make each x^ a harmless 0. */
        scale = isfinite(variance) ? 1 / sqrtf(variance + l->spec->norm.epsilon) : NAN;
        inverse[i / c] = scale;
        for (size_t k = 0; k < c; k++) {
            xh[k] *= scale;
            y[k] = gain[k] * xh[k];
        }
        for (size_t k = 0; bias && k < c; k++)
            y[k] += bias[k];
    }
}

FAST static void backward(const struct layer *l, const float *x, float *dy, float *dx, const struct pass *p)
{
    const size_t c = channels(l->spec), n = (size_t)p->n * (size_t)l->spec->n_in;
    const float *restrict gain = l->params[GAIN], *restrict inverse = l->work + n;
    float *restrict dgain = l->grads[GAIN], *restrict dbias = has_bias(l->spec) ? l->grads[BIAS] : NULL;

    (void)x;
    memset(dgain, 0, c * sizeof *dgain);
    if (dbias)
        memset(dbias, 0, c * sizeof *dbias);
    for (size_t i = 0; i < n; i += c) {
        const float *restrict xh = l->work + i;
        float *g = dy + i;
        float along, centre;

        for (size_t k = 0; dbias && k < c; k++)
            dbias[k] += g[k];
        for (size_t k = 0; k < c; k++) {
            dgain[k] += g[k] * xh[k];
            g[k] *= gain[k];
        }
        if (!dx)
            continue;
        centre = row_mean(g, c);
        along = row_mean_product(g, xh, c);
        for (size_t k = 0; k < c; k++)
            dx[i + k] = (g[k] - centre - xh[k] * along) * inverse[i / c];
    }
}

const struct layer_ops layer_layer_norm = {.in_place = true,
                                           .work = layer_norm_work,
                                           .forward = forward,
                                           .backward = backward,
                                           .step = layer_one_step};
