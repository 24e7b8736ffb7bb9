/* dropout -- training drops each value with probability `rate` and divides the others by the probability to
 * stay; evaluation changes nothing. Srivastava et al. 2014, inverted.
 *
 *     y = m * x      dx = m * dy      m = 0 or 1 / P(stay)
 *
 * NaN stays NaN even if dropped. */
#include <string.h>

#include "nn/layers/dropout_mask.h"
#include "nn/layers/layer.h"
#include "shared/base/compiler.h"
#include "shared/base/rng.h"

static size_t dropout_work(const struct layer_spec *s, int max_batch)
{
    return (size_t)max_batch * (size_t)s->n_out; /* m */
}

/* y may be x */
FAST static void multiply(float *y, const float *x, const float *restrict m, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = m[i] * x[i];
}

static void dropout_forward(const struct layer *l, const float *x, const struct pass *p)
{
    const size_t n = (size_t)p->n * (size_t)l->spec->n_out;
    struct rng r;

    if (!p->is_training) {
        if (l->y != x)
            memcpy(l->y, x, n * sizeof *x);
        return;
    }
    rng_init(&r, p->seed, p->stream, (uint64_t)l->index);
    dropout_mask(l->work, n, l->spec->dropout.rate, &r);
    multiply(l->y, x, l->work, n);
}

static void dropout_backward(const struct layer *l, const float *x, float *dy, float *dx,
                             const struct pass *p)
{
    (void)x;
    if (dx)
        multiply(dx, dy, l->work, (size_t)p->n * (size_t)l->spec->n_out);
}

const struct layer_ops layer_dropout = {.in_place = true,
                                        .work = dropout_work,
                                        .forward = dropout_forward,
                                        .backward = dropout_backward,
                                        .step = layer_one_step};
