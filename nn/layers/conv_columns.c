/* conv_columns -- convolution as matrix products (Chellapilla, Puri and Simard 2006). Row p of `columns`
 * (pixels, k), k = rows cols c, holds the window's input for pixel p of the output, counting pixels through
 * the whole batch:
 *
 *     y = columns weight + bias      d weight = columns^T dy      d columns = dy weight^T
 *
 * Only a few pixels are unfolded at a time, so that their columns are still in the second-level cache for
 * the product. */
#include <string.h>

#include "nn/kernels/matmul.h"
#include "nn/layers/conv.h"
#include "shared/base/compiler.h"

enum { COLUMNS = 1 << 15 }; /* floats of work, unless one pixel's window is larger */

static size_t window_size(const struct layer_spec *s)
{
    return (size_t)s->window.rows * (size_t)s->window.cols * (size_t)s->in.dim[2];
}

static size_t image_size(const struct layer_spec *s)
{
    return (size_t)s->out.dim[0] * (size_t)s->out.dim[1];
}

/* Pixels at a time. */
static size_t chunk_size(const struct layer_spec *s)
{
    size_t n = COLUMNS / window_size(s);

    return n > 0 ? n : 1;
}

/* 1 x 1 windows with stride 1: the images are already the columns. */
static bool is_unfolded(const struct layer_spec *s)
{
    const struct window_spec *w = &s->window;

    return w->rows == 1 && w->cols == 1 && w->row_stride == 1 && w->col_stride == 1;
}

static size_t conv_columns_work(const struct layer_spec *s)
{
    return is_unfolded(s) ? 0 : chunk_size(s) * window_size(s);
}

/* A pixel's window. Each of its rows has `n` values inside the image, `before` and `after` values outside. */
struct view {
    int row;      /* row of the image at the window's first row */
    size_t image; /* offset of the sample in x */
    size_t begin; /* offset in its row of the first value inside */
    size_t before, n, after;
};

static struct view view_of(const struct layer_spec *s, size_t p)
{
    const struct window_spec *w = &s->window;
    size_t c = (size_t)s->in.dim[2];
    size_t pixel = p % image_size(s);
    int col = (int)(pixel % (size_t)s->out.dim[1]) * w->col_stride - w->left;
    int end = col + w->cols < s->in.dim[1] ? col + w->cols : s->in.dim[1];
    int begin = col > 0 ? col : 0;

    return (struct view){.row = (int)(pixel / (size_t)s->out.dim[1]) * w->row_stride - w->top,
                         .image = p / image_size(s) * (size_t)s->n_in,
                         .begin = (size_t)begin * c,
                         .before = (size_t)(begin - col) * c,
                         .n = (size_t)(end - begin) * c,
                         .after = (size_t)(col + w->cols - end) * c};
}

/* *from: the offset in x of row `a` of the window. Returns false if that row is outside of the image. */
static bool find_row(const struct layer_spec *s, const struct view *v, int a, size_t *from)
{
    int row = v->row + a;

    *from = v->image + (size_t)row * (size_t)(s->in.dim[1] * s->in.dim[2]) + v->begin;
    return row >= 0 && row < s->in.dim[0];
}

static float *put_zeros(float *to, size_t n)
{
    if (n > 0) /* only at the edges of an image */
        memset(to, 0, n * sizeof *to);
    return to + n;
}

static const float *unfold(const struct layer *l, const float *x, size_t first, size_t n)
{
    const struct layer_spec *s = l->spec;
    size_t row_size = (size_t)(s->window.cols * s->in.dim[2]);
    float *out = l->work;

    if (is_unfolded(s))
        return x + first * (size_t)s->in.dim[2];
    for (size_t p = first; p < first + n; p++) {
        struct view v = view_of(s, p);

        for (int a = 0; a < s->window.rows; a++) {
            size_t from;

            if (!find_row(s, &v, a, &from)) {
                out = put_zeros(out, row_size);
                continue;
            }
            out = put_zeros(out, v.before);
            memcpy(out, x + from, v.n * sizeof *out);
            out = put_zeros(out + v.n, v.after);
        }
    }
    return l->work;
}

FAST static void fold(const struct layer *l, float *dx, size_t first, size_t n)
{
    const struct layer_spec *s = l->spec;
    size_t row_size = (size_t)(s->window.cols * s->in.dim[2]);
    const float *in = l->work;

    for (size_t p = first; p < first + n; p++) {
        struct view v = view_of(s, p);

        for (int a = 0; a < s->window.rows; a++, in += row_size) {
            size_t from;

            if (!find_row(s, &v, a, &from))
                continue;
            for (size_t i = 0; i < v.n; i++)
                dx[from + i] += in[v.before + i];
        }
    }
}

static void conv_columns_forward(const struct layer *l, const float *x, int n)
{
    size_t filters = (size_t)l->spec->out.dim[2];
    size_t k = window_size(l->spec);
    size_t end = (size_t)n * image_size(l->spec);

    for (size_t p = 0, m; p < end; p += m) {
        float *y = l->y + p * filters;

        m = end - p < chunk_size(l->spec) ? end - p : chunk_size(l->spec);
        matmul_repeat_row(y, l->params[CONV_BIAS], m, filters);
        matmul(false, false, (int)m, (int)filters, (int)k, unfold(l, x, p, m), l->params[CONV_WEIGHT], 1, y);
    }
}

static void weight_gradient(const struct layer *l, const float *x, const float *dy, int n)
{
    size_t filters = (size_t)l->spec->out.dim[2];
    size_t k = window_size(l->spec);
    size_t end = (size_t)n * image_size(l->spec);

    memset(l->grads[CONV_BIAS], 0, filters * sizeof(float));
    for (size_t p = 0, m; p < end; p += m) {
        const float *d = dy + p * filters;

        m = end - p < chunk_size(l->spec) ? end - p : chunk_size(l->spec);
        matmul(true, false, (int)k, (int)filters, (int)m, unfold(l, x, p, m), d, p > 0 ? 1 : 0,
               l->grads[CONV_WEIGHT]);
        matmul_add_rows(l->grads[CONV_BIAS], d, m, filters);
    }
}

static void input_gradient(const struct layer *l, const float *dy, float *dx, int n)
{
    size_t filters = (size_t)l->spec->out.dim[2];
    size_t k = window_size(l->spec);
    size_t end = (size_t)n * image_size(l->spec);
    bool folds = !is_unfolded(l->spec);

    if (folds)
        memset(dx, 0, (size_t)n * (size_t)l->spec->n_in * sizeof *dx);
    for (size_t p = 0, m; p < end; p += m) {
        m = end - p < chunk_size(l->spec) ? end - p : chunk_size(l->spec);
        matmul(false, true, (int)m, (int)k, (int)filters, dy + p * filters, l->params[CONV_WEIGHT], 0,
               folds ? l->work : dx + p * k);
        if (folds)
            fold(l, dx, p, m);
    }
}

const struct conv_path conv_columns = {.work = conv_columns_work,
                                       .forward = conv_columns_forward,
                                       .weight_gradient = weight_gradient,
                                       .input_gradient = input_gradient};
