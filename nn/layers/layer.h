/* layer -- what the engine asks of a kind of layer: forward and backward beside each other in layer_KIND.c. A
 * new kind is such a file, a line below, one in net.c's table,
 * and its words and shapes in shared/layer_spec.c.
 *
 * Images lie channels last: (n, rows, columns, channels). */
#ifndef PSGD_LAYER_H
#define PSGD_LAYER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shared/err.h"
#include "shared/layer_spec.h"

struct pass {              /* one forward pass and the backward pass that may follow it */
    int n;                 /* samples, <= max_batch */
    bool is_training;      /* else: running statistics are used, dropout does nothing, no backward follows */
    uint64_t seed, stream; /* of random numbers: rng_init(seed, stream, l->index) */
    const int *lengths;    /* (n) tokens before the padding, at least 1; NULL: the model reads no tokens */
    void (*between)(void *owner, size_t ready); /* as in net_batch; a layer that takes long pauses for it */
    void *owner;
    size_t ready;
};

static inline void pass_pause(const struct pass *p)
{
    if (p->between)
        p->between(p->owner, p->ready);
}

struct layer {
    const struct layer_ops *ops;
    const struct layer_spec *spec;
    int index;                    /* in the document */
    float *params[LAYER_TENSORS]; /* by number of the tensor in spec->tensors, trained ones without gaps */
    float *grads[LAYER_TENSORS];
    float *y;    /* (max_batch, n_out): what it made in the last forward pass */
    float *work; /* ops->work floats, kept from forward to backward */
    void *own;   /* whatever ops->open made */
};

struct layer_ops {
    bool is_view;  /* y is x, dx is dy: nothing to compute */
    bool in_place; /* y may be x, and dx may be dy */
    bool reads_y;  /* backward needs its own y: the next layer must not overwrite it */

    /* Floats of `work`. NULL: none. */
    size_t (*work)(const struct layer_spec *s, int max_batch);
    /* What a library needs; NULL: nothing. */
    int (*open)(struct layer *l, int max_batch, struct err *e);
    void (*close)(struct layer *l);

    /* l->y (n, n_out) from x (n, n_in). */
    void (*forward)(const struct layer *l, const float *x, const struct pass *p);
    /* From dy (n, n_out), which it may overwrite: overwrites all of l->grads and dx (n, n_in).
     * dx NULL: nobody below wants it. x is the input of the last forward pass; a layer that works in place
     * finds x == l->y. The "gradient" of a running statistic is what to take away from it (net.h);
     * forward has written it. */
    void (*backward)(const struct layer *l, const float *x, float *dy, float *dx, const struct pass *p);
};

extern const struct layer_ops layer_dense, layer_conv2d, layer_max_pool, layer_avg_pool, layer_batch_norm,
    layer_layer_norm, layer_dropout, layer_embedding, layer_lstm, layer_gru, layer_mean_over_time,
    layer_linear, layer_relu, layer_leaky_relu, layer_tanh, layer_sigmoid, layer_gelu, layer_softmax;

#endif
