/* conv_direct -- convolution of images with few channels into few filters, vectorized along one filter's
 * output row. Such narrow matrix products would leave most of a vector register empty.
 *
 * Each sample is copied once into planes: planes_x[k] (height, width) is channel k with its padding, and
 * planes_d[f] (h', breadth) is filter f of dy. Rows are long enough to read and compute whole vectors at
 * the right end, where planes_d is 0. */
#include <string.h>

#include "nn/kernels/lanes.h"
#include "nn/layers/conv.h"
#include "shared/base/compiler.h"

enum { BLOCK = 2 * SUMS, PARTS = BLOCK / LANES, GROUP = 4, CHANNELS = 4, FILTERS = 16, WINDOW = 16 };

/* Few enough channels that the planes are no larger than a few copies of the images; rows that fill a
 * vector. */
bool conv_direct_takes(const struct layer_spec *s)
{
    return s->in.dim[2] <= CHANNELS && s->out.dim[2] <= FILTERS && s->window.col_stride == 1 &&
           s->window.rows <= WINDOW && s->window.cols <= WINDOW && s->out.dim[1] >= SUMS;
}

struct planes {
    size_t height, width; /* of a plane of x */
    size_t rows, breadth; /* of a plane of dy */
    size_t channels, filters;
};

static struct planes planes_of(const struct layer_spec *s)
{
    size_t breadth = ((size_t)s->out.dim[1] + BLOCK - 1) / BLOCK * BLOCK;
    size_t height = (size_t)(s->out.dim[0] - 1) * (size_t)s->window.row_stride + (size_t)s->window.rows;

    return (struct planes){.height = height,
                           .width = breadth + (size_t)s->window.cols - 1,
                           .rows = (size_t)s->out.dim[0],
                           .breadth = breadth,
                           .channels = (size_t)s->in.dim[2],
                           .filters = (size_t)s->out.dim[2]};
}

static size_t x_size(const struct planes *g)
{
    return g->channels * g->height * g->width;
}

static size_t d_size(const struct planes *g)
{
    return g->filters * g->rows * g->breadth;
}

static size_t conv_direct_work(const struct layer_spec *s)
{
    struct planes g = planes_of(s);

    return x_size(&g) + d_size(&g);
}

/* Copies one sample (h, w, c) into planes. */
static void spread_x(const struct layer_spec *s, const struct planes *g, const float *x, float *planes)
{
    size_t c = g->channels;
    size_t top = (size_t)s->window.top, left = (size_t)s->window.left;
    size_t h = (size_t)s->in.dim[0], w = (size_t)s->in.dim[1];
    size_t n_rows = h < g->height - top ? h : g->height - top;
    size_t n_cols = w < g->width - left ? w : g->width - left;

    memset(planes, 0, x_size(g) * sizeof *planes);
    for (size_t r = 0; r < n_rows; r++)
        for (size_t k = 0; k < c; k++) {
            float *to = planes + (k * g->height + top + r) * g->width + left;
            const float *from = x + r * w * c + k;

            for (size_t j = 0; j < n_cols; j++)
                to[j] = from[j * c];
        }
}

/* Copies one sample of dy (h', w', filters) into planes. */
static void spread_d(const struct planes *g, size_t w, const float *dy, float *planes)
{
    memset(planes, 0, d_size(g) * sizeof *planes);
    for (size_t r = 0; r < g->rows; r++)
        for (size_t f = 0; f < g->filters; f++) {
            float *to = planes + (f * g->rows + r) * g->breadth;
            const float *from = dy + r * w * g->filters + f;

            for (size_t j = 0; j < w; j++)
                to[j] = from[j * g->filters];
        }
}

/* Computes BLOCK neighbors in one output row, for `n` filters. x: the window's first value in the first
 * plane; w, b, y: those of the first filter. Only n_out values of the block are in the image. `n` is a
 * constant in every call. */
INLINE void forward_block(const struct layer_spec *s, const struct planes *g, size_t n, const float *x,
                          const float *w, const float *b, float *y, size_t n_out)
{
    lanes sum[GROUP][PARTS];
    float out[GROUP][BLOCK];

    for (size_t f = 0; f < n; f++)
        for (size_t q = 0; q < PARTS; q++)
            sum[f][q] = b[f] - (lanes){0};
    for (size_t a = 0; a < (size_t)s->window.rows; a++)
        for (size_t c = 0; c < (size_t)s->window.cols; c++)
            for (size_t k = 0; k < g->channels; k++, w += g->filters) {
                const float *at = x + (k * g->height + a) * g->width + c;
                lanes v;

                for (size_t q = 0; q < PARTS; q++) {
                    LANES_READ(v, at + q * LANES);
                    for (size_t f = 0; f < n; f++)
                        sum[f][q] += w[f] * v;
                }
            }
    for (size_t f = 0; f < n; f++)
        memcpy(out[f], sum[f], sizeof out[f]);
    for (size_t j = 0; j < n_out; j++)
        for (size_t f = 0; f < n; f++)
            y[j * g->filters + f] = out[f][j];
}

FAST static void forward(const struct layer *l, const float *x, int n)
{
    const struct layer_spec *s = l->spec;
    const struct planes g = planes_of(s);
    size_t w = (size_t)s->out.dim[1];
    float *y = l->y;

    for (int i = 0; i < n; i++, x += s->n_in) {
        spread_x(s, &g, x, l->work);
        for (size_t r = 0; r < g.rows; r++, y += w * g.filters)
            for (size_t f = 0; f < g.filters; f += GROUP)
                for (size_t j = 0; j < w; j += BLOCK) {
                    const float *at = l->work + r * (size_t)s->window.row_stride * g.width + j;
                    const float *weight = l->params[CONV_WEIGHT] + f;
                    const float *bias = l->params[CONV_BIAS] + f;
                    float *out = y + j * g.filters + f;
                    size_t n_out = w - j < BLOCK ? w - j : BLOCK;

                    switch (g.filters - f) {
                    case 1:
                        forward_block(s, &g, 1, at, weight, bias, out, n_out);
                        break;
                    case 2:
                        forward_block(s, &g, 2, at, weight, bias, out, n_out);
                        break;
                    case 3:
                        forward_block(s, &g, 3, at, weight, bias, out, n_out);
                        break;
                    default:
                        forward_block(s, &g, GROUP, at, weight, bias, out, n_out);
                    }
                }
    }
}

/* dw[f] += sum over the image of x d[f], for `n` filters. x: the input of the first output value; d: the
 * first plane. */
INLINE void weight_block(const struct planes *g, size_t row_step, size_t n, const float *x, const float *d,
                         float *dw)
{
    lanes sum[GROUP][PARTS] = {0};

    for (size_t r = 0; r < g->rows; r++)
        for (size_t j = 0; j < g->breadth; j += BLOCK) {
            const float *at = x + r * row_step + j;
            lanes v, d_v;

            for (size_t q = 0; q < PARTS; q++) {
                LANES_READ(v, at + q * LANES);
                for (size_t f = 0; f < n; f++) {
                    LANES_READ(d_v, d + (f * g->rows + r) * g->breadth + j + q * LANES);
                    sum[f][q] += v * d_v;
                }
            }
        }
    for (size_t f = 0; f < n; f++) {
        lanes both[SUMS / LANES];

        for (size_t q = 0; q < SUMS / LANES; q++)
            both[q] = sum[f][q] + sum[f][q + SUMS / LANES];
        dw[f] += LANES_SUM(both);
    }
}

INLINE void bias_of(const struct planes *g, const float *d, float *db)
{
    for (size_t f = 0; f < g->filters; f++) {
        lanes sum[SUMS / LANES] = {0};

        for (size_t i = 0; i < g->rows * g->breadth; i += SUMS)
            for (size_t q = 0; q < SUMS / LANES; q++) {
                lanes v;

                LANES_READ(v, d + f * g->rows * g->breadth + i + q * LANES);
                sum[q] += v;
            }
        db[f] += LANES_SUM(sum);
    }
}

FAST static void weight_gradient(const struct layer *l, const float *x, const float *dy, int n)
{
    const struct layer_spec *s = l->spec;
    const struct planes g = planes_of(s);
    size_t row_step = (size_t)s->window.row_stride * g.width;
    float *planes_d = l->work + x_size(&g);

    memset(l->grads[CONV_WEIGHT], 0, tensor_spec_count(&s->tensors[CONV_WEIGHT]) * sizeof(float));
    memset(l->grads[CONV_BIAS], 0, g.filters * sizeof(float));
    for (int i = 0; i < n; i++, x += s->n_in, dy += s->n_out) {
        float *dw = l->grads[CONV_WEIGHT];

        spread_x(s, &g, x, l->work);
        spread_d(&g, (size_t)s->out.dim[1], dy, planes_d);
        bias_of(&g, planes_d, l->grads[CONV_BIAS]);
        for (size_t a = 0; a < (size_t)s->window.rows; a++)
            for (size_t c = 0; c < (size_t)s->window.cols; c++)
                for (size_t k = 0; k < g.channels; k++, dw += g.filters)
                    for (size_t f = 0; f < g.filters; f += GROUP) {
                        const float *at = l->work + (k * g.height + a) * g.width + c;
                        const float *d = planes_d + f * g.rows * g.breadth;

                        switch (g.filters - f) {
                        case 1:
                            weight_block(&g, row_step, 1, at, d, dw + f);
                            break;
                        case 2:
                            weight_block(&g, row_step, 2, at, d, dw + f);
                            break;
                        case 3:
                            weight_block(&g, row_step, 3, at, d, dw + f);
                            break;
                        default:
                            weight_block(&g, row_step, GROUP, at, d, dw + f);
                        }
                    }
    }
}

const struct conv_path conv_direct = {
    .work = conv_direct_work, .forward = forward, .weight_gradient = weight_gradient};
