/* embedding -- y (n, time, units): row x[i, t] of W (vocab, units) for each token of x (n, time). Bengio et
 * al. 2003. The input has tokens as floats, 0 .. vocab - 1, exact up to 2^24; the caller has checked them.
 * Token 0, the padding, has a row like any other.
 *
 *     dW[w] = sum over all (i, t) with x[i, t] = w of dy[i, t]
 *
 * All of dW is cleared each time, not only the rows of the last batch: a codec may have written the sum of
 * several nodes' gradients there, which also has rows of the other nodes' tokens. A head that is tied to this
 * layer has already written its part of dW. Tokens have no gradient; this is always the first layer. */
#include <string.h>

#include "nn/layers/layer.h"
#include "shared/base/compiler.h"

static void embedding_forward(const struct layer *l, const float *x, const struct pass *p)
{
    const size_t units = l->spec->tensors[0].shape[1], n = (size_t)p->n * (size_t)l->spec->n_in;

    for (size_t i = 0; i < n; i++)
        memcpy(l->y + i * units, l->params[0] + (size_t)x[i] * units, units * sizeof *l->y);
}

FAST static void backward(const struct layer *l, const float *x, float *dy, float *dx, const struct pass *p)
{
    const size_t units = l->spec->tensors[0].shape[1], n = (size_t)p->n * (size_t)l->spec->n_in;

    (void)dx;
    if (!l->partner)
        memset(l->grads[0], 0, tensor_spec_count(&l->spec->tensors[0]) * sizeof *dy);
    for (size_t i = 0; i < n; i++) {
        const float *restrict from = dy + i * units;
        float *restrict to = l->grads[0] + (size_t)x[i] * units;

        for (size_t k = 0; k < units; k++)
            to[k] += from[k];
    }
}

const struct layer_ops layer_embedding = {
    .forward = embedding_forward, .backward = backward, .step = layer_one_step};
