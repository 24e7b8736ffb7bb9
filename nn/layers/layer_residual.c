/* residual, sum -- a residual block: y = x + f(x), f its layers (He et al. 2016). `residual` is before them
 * and passes x on; `sum` is behind them and adds x to f(x).
 *
 *     dx = dy + the gradient that f has for x
 *
 * The layers of f overwrite the gradient, so sum keeps a copy of dy for residual. */
#include <string.h>

#include "nn/layers/layer.h"
#include "shared/base/compiler.h"

static size_t block_values(const struct layer *l, const struct pass *p)
{
    return (size_t)p->n * (size_t)l->spec->n_out;
}

static void residual_forward(const struct layer *l, const float *x, const struct pass *p)
{
    if (l->y != x)
        memcpy(l->y, x, block_values(l, p) * sizeof *x);
}

FAST static void residual_backward(const struct layer *l, const float *x, float *dy, float *dx,
                                   const struct pass *p)
{
    const float *restrict around = l->partner->work;

    (void)x;
    for (size_t i = 0, n = dx ? block_values(l, p) : 0; i < n; i++)
        dx[i] = dy[i] + around[i];
}

static size_t sum_work(const struct layer_spec *s, int max_batch)
{
    return (size_t)max_batch * (size_t)s->n_out; /* dy */
}

FAST static void sum_forward(const struct layer *l, const float *x, const struct pass *p)
{
    const float *restrict around = l->partner->y;

    for (size_t i = 0, n = block_values(l, p); i < n; i++)
        l->y[i] = x[i] + around[i];
}

static void sum_backward(const struct layer *l, const float *x, float *dy, float *dx, const struct pass *p)
{
    (void)x;
    memcpy(l->work, dy, block_values(l, p) * sizeof *dy);
    if (dx && dx != dy)
        memcpy(dx, dy, block_values(l, p) * sizeof *dy);
}

static void sum_step(const struct layer *l, const float *x, int t)
{
    const size_t n = (size_t)l->spec->n_out / (size_t)l->spec->out.dim[0], at = (size_t)t * n;

    for (size_t k = 0; k < n; k++)
        l->y[at + k] = x[k] + l->partner->y[at + k];
}

/* reads_y: sum reads the y of residual. */
const struct layer_ops layer_residual = {.in_place = true,
                                         .reads_y = true,
                                         .forward = residual_forward,
                                         .backward = residual_backward,
                                         .step = layer_one_step};
const struct layer_ops layer_sum = {
    .in_place = true, .work = sum_work, .forward = sum_forward, .backward = sum_backward, .step = sum_step};
