/* dense -- y (n, out) = x (n, in) W (in, out) + b (out).
 *
 *     dW (in, out) = x^T dy      db (out) = column sums of dy      dx (n, in) = dy W^T
 *
 * W is stored (in, out), so that the forward product reads both operands row by row. */
#include <string.h>

#include "nn/kernels/matmul.h"
#include "nn/layers/layer.h"

enum { WEIGHT, BIAS };

static void dense_forward(const struct layer *l, const float *x, const struct pass *p)
{
    int in = l->spec->n_in;
    int out = l->spec->n_out;

    matmul_repeat_row(l->y, l->params[BIAS], (size_t)p->n, (size_t)out);
    matmul(false, false, p->n, out, in, x, l->params[WEIGHT], 1, l->y);
}

static void dense_backward(const struct layer *l, const float *x, float *dy, float *dx, const struct pass *p)
{
    int in = l->spec->n_in;
    int out = l->spec->n_out;

    matmul(true, false, in, out, p->n, x, dy, 0, l->grads[WEIGHT]);
    memset(l->grads[BIAS], 0, (size_t)out * sizeof(float));
    matmul_add_rows(l->grads[BIAS], dy, (size_t)p->n, (size_t)out);
    if (dx)
        matmul(false, true, p->n, in, out, dy, l->params[WEIGHT], 0, dx);
}

const struct layer_ops layer_dense = {.forward = dense_forward, .backward = dense_backward};
