/* mean_over_time -- y (n, k) = mean over the first steps of x (n, time, k): as many as the sample has
 * tokens, all of them if the model's input is not tokens. It is the masked mean pooling of the Theano
 * tutorial on LSTM networks, proj = (proj * mask).sum(axis=0) / mask.sum(axis=0). */
#include <string.h>

#include "nn/layers/layer.h"
#include "shared/base/compiler.h"

/* At most `time`: a reshape before this layer may have left fewer steps than tokens. */
static size_t steps_of(const struct layer *l, const struct pass *p, int i)
{
    int time = l->spec->in.dim[0];

    return (size_t)(p->lengths && p->lengths[i] < time ? p->lengths[i] : time);
}

FAST static void forward(const struct layer *l, const float *x, const struct pass *p)
{
    const size_t width = (size_t)l->spec->n_out;

    for (int i = 0; i < p->n; i++) {
        const float *restrict from = x + (size_t)i * (size_t)l->spec->n_in;
        float *restrict y = l->y + (size_t)i * width;
        size_t steps = steps_of(l, p, i);

        memset(y, 0, width * sizeof *y);
        for (size_t t = 0; t < steps; t++)
            for (size_t k = 0; k < width; k++)
                y[k] += from[t * width + k];
        for (size_t k = 0; k < width; k++)
            y[k] /= (float)steps;
    }
}

/* dx_t = dy / steps, 0 after the sample's steps */
FAST static void backward(const struct layer *l, const float *x, float *dy, float *dx, const struct pass *p)
{
    const size_t width = (size_t)l->spec->n_out, n_in = (size_t)l->spec->n_in;

    (void)x;
    for (int i = 0; dx && i < p->n; i++) {
        const float *restrict from = dy + (size_t)i * width;
        float *restrict to = dx + (size_t)i * n_in;
        size_t steps = steps_of(l, p, i);

        for (size_t t = 0; t < steps; t++)
            for (size_t k = 0; k < width; k++)
                to[t * width + k] = from[k] / (float)steps;
        memset(to + steps * width, 0, (n_in - steps * width) * sizeof *to);
    }
}

const struct layer_ops layer_mean_over_time = {.forward = forward, .backward = backward};
