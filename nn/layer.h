/* layer -- what the engine asks of a kind of layer. A new kind is one file with a struct layer_ops, a line
 * below and one in net.c's table, and its words in shared/model_spec.c. */
#ifndef PSGD_LAYER_H
#define PSGD_LAYER_H

#include <stdbool.h>
#include <stddef.h>

#include "shared/model_spec.h"
#include "shared/rng.h"
#include "shared/tensor_file.h"

enum { LAYER_TENSORS_MAX = 4 };

struct layer {
    const struct layer_ops *ops;
    struct layer_spec spec;
    float *params, *grads; /* this layer's part of the flat vectors */
    float *y;              /* (max_batch, n_out): what it made in the last forward pass */
};

struct layer_ops {
    bool in_place; /* y may be x, and dx may be dy */
    bool reads_y;  /* backward needs its own y: the next layer must not overwrite it */

    /* Names ("weight") and shapes of its parameters, in the order in which they lie. NULL: it has none. */
    int (*tensors)(struct tensor_view out[LAYER_TENSORS_MAX], const struct layer_spec *s);
    /* First values of tensor number `i`, from a generator of its own. */
    void (*init)(const struct layer_spec *s, int i, float *w, size_t n, struct rng *r);

    /* l->y (n, n_out) from x (n, n_in). */
    void (*forward)(const struct layer *l, const float *x, int n);
    /* From dy (n, n_out): overwrites l->grads and dx (n, n_in). dx NULL: nobody below wants it. x is the
     * input of the last forward pass; a layer that works in place finds x == l->y. */
    void (*backward)(const struct layer *l, const float *x, const float *dy, float *dx, int n);
};

extern const struct layer_ops layer_dense, layer_tanh, layer_relu, layer_sigmoid;

#endif
