/* dense -- y (n, out) = x (n, in) W (in, out) + b (out).
 *
 *     dW (in, out) = x^T dy      db (out) = column sums of dy      dx (n, in) = dy W^T
 *
 * W is stored (in, out), so that the forward product reads both factors row by row. */
#include <string.h>

#include "nn/layer.h"
#include "nn/matmul.h"

enum { WEIGHT, BIAS };

static void forward(const struct layer *l, const float *x, const struct pass *p)
{
    int in = l->spec->n_in;
    int out = l->spec->n_out;

    /* The product is added to what is there in any case, so that starting from b costs nothing. */
    for (int i = 0; i < p->n; i++)
        memcpy(l->y + (size_t)i * (size_t)out, l->params[BIAS], (size_t)out * sizeof *l->y);
    matmul(false, false, p->n, out, in, x, l->params[WEIGHT], 1, l->y);
}

static void backward(const struct layer *l, const float *x, float *dy, float *dx, const struct pass *p)
{
    int in = l->spec->n_in;
    int out = l->spec->n_out;
    float *restrict db = l->grads[BIAS];

    matmul(true, false, in, out, p->n, x, dy, 0, l->grads[WEIGHT]);
    memset(db, 0, (size_t)out * sizeof *db);
    for (int i = 0; i < p->n; i++) {
        const float *restrict row = dy + (size_t)i * (size_t)out;

        for (int k = 0; k < out; k++)
            db[k] += row[k];
    }
    if (dx)
        matmul(false, true, p->n, in, out, dy, l->params[WEIGHT], 0, dx);
}

const struct layer_ops layer_dense = {.forward = forward, .backward = backward};
