/* head -- y (n, time, vocab) = x (n, time, units) W^T, W (vocab, units) the weight of the model's embedding:
 * one tensor with two uses (Press and Wolf 2017). Its gradient is the sum of both: head writes its part,
 * and embedding, whose backward pass comes later, adds its own.
 *
 *     dW = dy^T x      dx = dy W */
#include "nn/kernels/matmul.h"
#include "nn/layers/layer.h"

static void head_forward(const struct layer *l, const float *x, const struct pass *p)
{
    const int *in = l->spec->in.dim, vocab = l->spec->out.dim[1];

    matmul(false, true, p->n * in[0], vocab, in[1], x, l->partner->params[0], 0, l->y);
}

static void head_backward(const struct layer *l, const float *x, float *dy, float *dx, const struct pass *p)
{
    const int *in = l->spec->in.dim, vocab = l->spec->out.dim[1];

    matmul(true, false, vocab, in[1], p->n * in[0], dy, x, 0, l->partner->grads[0]);
    if (dx)
        matmul(false, false, p->n * in[0], in[1], vocab, dy, l->partner->params[0], 0, dx);
}

const struct layer_ops layer_head = {
    .forward = head_forward, .backward = head_backward, .step = layer_one_step};
