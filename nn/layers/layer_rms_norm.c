/* rms_norm -- divides each row of x (m, c), m = samples x steps, by its root mean square (Zhang and Sennrich
 * 2019):
 *
 *     x^ = x / sqrt(mean of x^2 + epsilon)      y = gain * x^
 *
 *     dgain = sum over the rows of dy x^
 *     dx = (g - x^ mean of (g x^)) / sqrt(mean of x^2 + epsilon),      g = gain * dy */
#include <math.h>
#include <string.h>

#include "nn/layers/layer.h"
#include "nn/layers/row_mean.h"
#include "shared/base/compiler.h"

enum { GAIN };

/* x^ (m, c), then 1 / sqrt(mean of x^2 + epsilon) (m). */
static size_t rms_norm_work(const struct layer_spec *s, int max_batch)
{
    return (size_t)max_batch * ((size_t)s->n_in + (size_t)s->n_in / s->tensors[GAIN].shape[0]);
}

FAST static void rms_norm_forward(const struct layer *l, const float *x, const struct pass *p)
{
    const size_t c = l->spec->tensors[GAIN].shape[0], n = (size_t)p->n * (size_t)l->spec->n_in;
    const float *restrict gain = l->params[GAIN];
    float *restrict inverse = l->work + n;

    for (size_t i = 0; i < n; i += c) {
        float *restrict xh = l->work + i;
        float *y = l->y + i;
        float square = row_mean_product(x + i, x + i, c);
        /* An overflow must become NaN: 1 / sqrt(inf) would make each x^ a harmless 0. */
        float scale = isfinite(square) ? 1 / sqrtf(square + l->spec->norm.epsilon) : NAN;

        inverse[i / c] = scale;
        for (size_t k = 0; k < c; k++) {
            xh[k] = x[i + k] * scale;
            y[k] = gain[k] * xh[k];
        }
    }
}

FAST static void rms_norm_backward(const struct layer *l, const float *x, float *dy, float *dx,
                                   const struct pass *p)
{
    const size_t c = l->spec->tensors[GAIN].shape[0], n = (size_t)p->n * (size_t)l->spec->n_in;
    const float *restrict gain = l->params[GAIN], *restrict inverse = l->work + n;
    float *restrict dgain = l->grads[GAIN];

    (void)x;
    memset(dgain, 0, c * sizeof *dgain);
    for (size_t i = 0; i < n; i += c) {
        const float *restrict xh = l->work + i;
        float *g = dy + i;
        float along;

        for (size_t k = 0; k < c; k++) {
            dgain[k] += g[k] * xh[k];
            g[k] *= gain[k];
        }
        if (!dx)
            continue;
        along = row_mean_product(g, xh, c);
        for (size_t k = 0; k < c; k++)
            dx[i + k] = (g[k] - xh[k] * along) * inverse[i / c];
    }
}

const struct layer_ops layer_rms_norm = {.in_place = true,
                                         .work = rms_norm_work,
                                         .forward = rms_norm_forward,
                                         .backward = rms_norm_backward,
                                         .step = layer_one_step};
