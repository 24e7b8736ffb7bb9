/* conv2d -- convolution layer; nn/layers/conv.h has the formula. The path is a function of the shape and
 * of what is compiled in, so that a run repeats to the bit on the same machine. */
#include "nn/kernels/blas.h"
#include "nn/layers/conv.h"

enum {
    FEW_FILTERS = 7, /* up to this, conv_direct is fastest, also with oneDNN */

    /* From both of these on, oneDNN's gradient of the weights takes up to 1.7 times as long as matrix
     * products. */
    MANY_FILTERS = 16,
    LARGE_WINDOW = 128
};

static const struct conv_path *forward_path(const struct layer *l)
{
    bool direct = conv_direct_takes(l->spec);

    if (conv_winograd_takes(l->spec))
        return &conv_winograd;
    if (l->own && !(direct && l->spec->out.dim[2] <= FEW_FILTERS))
        return &conv_onednn;
    return direct ? &conv_direct : &conv_columns;
}

static const struct conv_path *weight_path(const struct layer *l)
{
    const struct conv_path *path = forward_path(l);
    size_t filters = (size_t)l->spec->out.dim[2];
    size_t window = tensor_spec_count(&l->spec->tensors[CONV_WEIGHT]) / filters;

    return path == &conv_onednn && filters >= MANY_FILTERS && window >= LARGE_WINDOW ? &conv_columns : path;
}

static const struct conv_path *input_path(const struct layer *l)
{
    return l->own ? &conv_onednn : &conv_columns;
}

/* The path is known only after open(), so this is the maximum. */
static size_t conv2d_work(const struct layer_spec *s, int max_batch)
{
    size_t columns = conv_columns.work(s);
    size_t own = conv_winograd_takes(s) ? conv_winograd.work(s)
                 : conv_direct_takes(s) ? conv_direct.work(s)
                                        : 0;

    (void)max_batch;
    return columns > own ? columns : own;
}

static int open(struct layer *l, int max_batch, struct err *e)
{
    (void)max_batch;
    return blas_allows_onednn() && !conv_winograd_takes(l->spec) ? conv_onednn_open(l, e) : 0;
}

static void conv2d_forward(const struct layer *l, const float *x, const struct pass *p)
{
    forward_path(l)->forward(l, x, p->n);
}

static void conv2d_backward(const struct layer *l, const float *x, float *dy, float *dx, const struct pass *p)
{
    const struct conv_path *path = weight_path(l);

    if (path->backward) {
        path->backward(l, x, dy, dx, p);
        return;
    }
    path->weight_gradient(l, x, dy, p->n);
    if (!dx)
        return;
    pass_pause(p);
    input_path(l)->input_gradient(l, dy, dx, p->n);
}

const struct layer_ops layer_conv2d = {.work = conv2d_work,
                                       .open = open,
                                       .close = conv_onednn_close,
                                       .forward = conv2d_forward,
                                       .backward = conv2d_backward};
