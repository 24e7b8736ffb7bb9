/* conv -- the ways to compute a convolution; layer_conv2d.c chooses one by the shape. Images are stored
 * channels last:
 *
 *     x (n, h, w, c)    weight (rows, cols, c, filters)    bias (filters)    y, dy (n, h', w', filters)
 *
 *     y[i, r, s, f] = bias[f] + sum over a, b, k of
 *                     x[i, r row_stride + a - top, s col_stride + b - left, k] weight[a, b, k, f]
 *
 * where x is 0 outside of the image. */
#ifndef PSGD_CONV_H
#define PSGD_CONV_H

#include <stdbool.h>
#include <stddef.h>

#include "nn/layers/layer.h"

enum { CONV_WEIGHT, CONV_BIAS }; /* in spec->tensors */

struct conv_path {
    /* Returns the floats needed in l->work, which keeps nothing between calls. NULL: none. */
    size_t (*work)(const struct layer_spec *s);
    /* l->y from x */
    void (*forward)(const struct layer *l, const float *x, int n);
    /* Computes l->grads and, unless it is NULL, dx together. NULL: the two functions below are used. */
    void (*backward)(const struct layer *l, const float *x, const float *dy, float *dx, const struct pass *p);
    /* l->grads from x and dy */
    void (*weight_gradient)(const struct layer *l, const float *x, const float *dy, int n);
    /* dx (n, h, w, c) from dy. NULL: another path computes it. */
    void (*input_gradient)(const struct layer *l, const float *dy, float *dx, int n);
};

/* Matrix products with windows copied into rows: any shape. */
extern const struct conv_path conv_columns;

/* Our own loop along the rows of an image: few channels, for which libraries are slow. */
extern const struct conv_path conv_direct;
bool conv_direct_takes(const struct layer_spec *s);

/* Products of transformed tiles: a quarter of the multiplications, for 3 x 3 windows with stride 1. */
extern const struct conv_path conv_winograd;
bool conv_winograd_takes(const struct layer_spec *s);

/* oneDNN's primitives, prepared in l->own when the layer is created. conv_onednn_open() leaves l->own NULL if
 * oneDNN has no optimized code for this shape, or is not built in (make ONEDNN=): another path then computes
 * the convolution. ERR_NOMEM. */
extern const struct conv_path conv_onednn;
int conv_onednn_open(struct layer *l, struct err *e);
void conv_onednn_close(struct layer *l);

#endif
