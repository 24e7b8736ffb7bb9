/* dense -- y (n, out) = x (n, in) W (in, out) + b (out), n the samples, or if positionwise the steps of all
 * samples. b may be absent.
 *
 *     dW (in, out) = x^T dy      db (out) = column sums of dy      dx (n, in) = dy W^T
 *
 * W is stored (in, out), so that the forward product reads both operands row by row. */
#include <string.h>

#include "nn/kernels/matmul.h"
#include "nn/layers/layer.h"

enum { WEIGHT, BIAS };

struct dense_size {
    int rows, in, out;
};

static struct dense_size size_of(const struct layer *l, const struct pass *p)
{
    const size_t *w = l->spec->tensors[WEIGHT].shape;

    return (struct dense_size){p->n * (l->spec->n_in / (int)w[0]), (int)w[0], (int)w[1]};
}

static void dense_forward(const struct layer *l, const float *x, const struct pass *p)
{
    const struct dense_size s = size_of(l, p);
    const bool has_bias = l->spec->n_tensors > BIAS;

    if (has_bias)
        matmul_repeat_row(l->y, l->params[BIAS], (size_t)s.rows, (size_t)s.out);
    matmul(false, false, s.rows, s.out, s.in, x, l->params[WEIGHT], has_bias, l->y);
}

static void dense_backward(const struct layer *l, const float *x, float *dy, float *dx, const struct pass *p)
{
    const struct dense_size s = size_of(l, p);

    matmul(true, false, s.in, s.out, s.rows, x, dy, 0, l->grads[WEIGHT]);
    if (l->spec->n_tensors > BIAS) {
        memset(l->grads[BIAS], 0, (size_t)s.out * sizeof(float));
        matmul_add_rows(l->grads[BIAS], dy, (size_t)s.rows, (size_t)s.out);
    }
    if (dx)
        matmul(false, true, s.rows, s.in, s.out, dy, l->params[WEIGHT], 0, dx);
}

const struct layer_ops layer_dense = {
    .forward = dense_forward, .backward = dense_backward, .step = layer_one_step};
