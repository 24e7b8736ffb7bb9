/* layer -- interface of a kind of layer. Forward and backward are in layer_KIND.c. A new kind needs such a
 * file and a line in shared/job/layer_kinds.h; new keys or shapes also need a parser in
 * shared/job/layer_spec.c.
 *
 * Images are stored channels last: (n, rows, columns, channels). */
#ifndef PSGD_LAYER_H
#define PSGD_LAYER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shared/base/err.h"
#include "shared/job/layer_spec.h"

struct pass {              /* one forward pass and the backward pass that may follow it */
    int n;                 /* samples, <= max_batch */
    bool is_training;      /* false: uses running statistics, no dropout, no backward pass */
    uint64_t seed, stream; /* of random numbers: rng_init(seed, stream, l->index) */
    const int *lengths;    /* (n) tokens before the padding, at least 1; NULL: there is no padding */
    void (*between)(void *owner, size_t ready); /* as in net_batch; slow layers call it too */
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
    int index;                    /* in model_spec.layers */
    const struct layer *partner;  /* layer_spec.partner; NULL: none */
    float *params[LAYER_TENSORS]; /* of spec->tensors; trained tensors are contiguous in memory */
    float *grads[LAYER_TENSORS];
    float *y;    /* (max_batch, n_out): output of the last forward pass */
    float *work; /* ops->work floats, kept from forward to backward */
    void *own;   /* private state, created by ops->open */
};

struct layer_ops {
    bool is_view;       /* y is x, dx is dy: nothing to compute */
    bool in_place;      /* y may be x, and dx may be dy */
    bool back_in_place; /* dx may be dy, but y may not be x */
    bool reads_y;       /* backward needs its own y: the next layer must not overwrite y */

    /* Returns the floats needed in `work`. NULL: none. */
    size_t (*work)(const struct layer_spec *s, int max_batch);
    /* Create and free the private state, e.g. of a library; NULL: none. */
    int (*open)(struct layer *l, int max_batch, struct err *e);
    void (*close)(struct layer *l);

    /* Computes l->y (n, n_out) from x (n, n_in). */
    void (*forward)(const struct layer *l, const float *x, const struct pass *p);
    /* From dy (n, n_out), which it may overwrite: overwrites all of l->grads and dx (n, n_in). dx may be
     * NULL: not needed. x is the input of the last forward pass, or l->y for a layer that works in place.
     * The forward pass has written the batch's statistics in place of the gradients of running
     * statistics (net.h). */
    void (*backward)(const struct layer *l, const float *x, float *dy, float *dx, const struct pass *p);
    /* Computes step t of y, (m) of (time, m), of one sample in evaluation mode, from x, the same step of the
     * input. The last passes have computed the steps before it. NULL: forward has to compute all steps. */
    void (*step)(const struct layer *l, const float *x, int t);
};

/* The `step` of a kind whose steps do not depend on each other: `forward` of a layer of one step. */
void layer_one_step(const struct layer *l, const float *x, int t);

#define LAYER(kind, NAME, parser, ops, convert, keys) extern const struct layer_ops layer_##ops;
LAYER_KINDS(LAYER)
#undef LAYER

#endif
