/* residual, sum -- a residual block: y = x + f(x), f its layers (He et al. 2016). `residual` is before them
 * and passes x on; `sum` is behind them and adds x to f(x).
 *
 *     dx = dy + the gradient that f has for x
 *
 * The layers of f overwrite the gradient, so sum keeps a copy of dy for residual. */
#include <string.h>

#include "nn/kernels/parallel.h"
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

struct residual_pass { /* to = a + b; a may be `to` */
    float *to;
    const float *a, *b;
};

FAST static void add_values(void *arg, int k, size_t from, size_t to)
{
    const struct residual_pass *pass = arg;
    const float *a = pass->a, *restrict b = pass->b;
    float *sum = pass->to;

    (void)k;
    for (size_t i = from; i < to; i++)
        sum[i] = a[i] + b[i];
}

static void add_around(float *to, const float *a, const float *around, size_t n)
{
    parallel_for_values(n, n, add_values, &(struct residual_pass){to, a, around});
}

static void residual_backward(const struct layer *l, const float *x, float *dy, float *dx,
                              const struct pass *p)
{
    (void)x;
    if (dx)
        add_around(dx, dy, l->partner->work, block_values(l, p));
}

static size_t sum_work(const struct layer_spec *s, int max_batch)
{
    return (size_t)max_batch * (size_t)s->n_out; /* dy */
}

static void sum_forward(const struct layer *l, const float *x, const struct pass *p)
{
    add_around(l->y, x, l->partner->y, block_values(l, p));
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
