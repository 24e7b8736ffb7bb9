/* position_embedding -- adds a learned row to each step: y[i, t] = x[i, t] + W[t], W (positions, units), of
 * which the first `time` are used (Gehring et al. 2017).
 *
 *     dW[t] = sum over i of dy[i, t], 0 of positions that are not used      dx = dy */
#include <string.h>

#include "nn/kernels/matmul.h"
#include "nn/layers/layer.h"
#include "shared/base/compiler.h"

FAST static void position_embedding_forward(const struct layer *l, const float *x, const struct pass *p)
{
    const size_t n = (size_t)l->spec->n_in;
    const float *restrict w = l->params[0];

    for (size_t i = 0; i < (size_t)p->n * n; i += n)
        for (size_t k = 0; k < n; k++)
            l->y[i + k] = x[i + k] + w[k];
}

static void position_embedding_backward(const struct layer *l, const float *x, float *dy, float *dx,
                                        const struct pass *p)
{
    const size_t n = (size_t)l->spec->n_in;

    (void)x;
    memset(l->grads[0], 0, tensor_spec_count(&l->spec->tensors[0]) * sizeof *dy);
    matmul_add_rows(l->grads[0], dy, (size_t)p->n, n);
    if (dx && dx != dy)
        memcpy(dx, dy, (size_t)p->n * n * sizeof *dx);
}

static void position_embedding_step(const struct layer *l, const float *x, int t)
{
    const size_t n = (size_t)l->spec->in.dim[1], at = (size_t)t * n;

    for (size_t k = 0; k < n; k++)
        l->y[at + k] = x[k] + l->params[0][at + k];
}

const struct layer_ops layer_position_embedding = {.in_place = true,
                                                   .forward = position_embedding_forward,
                                                   .backward = position_embedding_backward,
                                                   .step = position_embedding_step};
