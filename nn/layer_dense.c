/* dense -- y (n, out) = x (n, in) W (in, out) + b (out).
 *
 *     dW (in, out) = x^T dy      db (out) = column sums of dy      dx (n, in) = dy W^T
 *
 * W is stored (in, out), so that the forward product reads both factors row by row. Glorot and Bengio 2010,
 * eq. 16: W ~ U(-a, a) with a = sqrt(6 / (in + out)); b = 0. */
#include <cblas.h>
#include <math.h>
#include <string.h>

#include "nn/layer.h"

static int tensors(struct tensor_view out[LAYER_TENSORS_MAX], const struct layer_spec *s)
{
    out[0] = (struct tensor_view){
        .name = "weight", .n_dims = 2, .shape = {(size_t)s->n_in, (size_t)s->n_out}};
    out[1] = (struct tensor_view){.name = "bias", .n_dims = 1, .shape = {(size_t)s->n_out}};
    return 2;
}

static void init(const struct layer_spec *s, int i, float *w, size_t n, struct rng *r)
{
    float a = sqrtf(6 / ((float)s->n_in + (float)s->n_out));

    if (i == 1 || s->init == INIT_ZEROS) {
        memset(w, 0, n * sizeof *w);
        return;
    }
    for (size_t k = 0; k < n; k++)
        w[k] = a * (2 * rng_uniform(r) - 1);
}

static float *bias(const struct layer *l, float *flat)
{
    return flat + (size_t)l->spec.n_in * (size_t)l->spec.n_out;
}

static void forward(const struct layer *l, const float *x, int n)
{
    int in = l->spec.n_in;
    int out = l->spec.n_out;

    /* OpenBLAS adds to what is there in any case, so that starting from b costs nothing. */
    for (int i = 0; i < n; i++)
        memcpy(l->y + (size_t)i * (size_t)out, bias(l, l->params), (size_t)out * sizeof *l->y);
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, n, out, in, 1, x, in, l->params, out, 1, l->y,
                out);
}

static void backward(const struct layer *l, const float *x, const float *dy, float *dx, int n)
{
    int in = l->spec.n_in;
    int out = l->spec.n_out;
    float *restrict db = bias(l, l->grads);

    cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, in, out, n, 1, x, in, dy, out, 0, l->grads, out);
    memset(db, 0, (size_t)out * sizeof *db);
    for (int i = 0; i < n; i++) {
        const float *restrict row = dy + (size_t)i * (size_t)out;

        for (int k = 0; k < out; k++)
            db[k] += row[k];
    }
    if (dx)
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, n, in, out, 1, dy, out, l->params, out, 0, dx,
                    in);
}

const struct layer_ops layer_dense = {
    .tensors = tensors, .init = init, .forward = forward, .backward = backward};
