/* net -- a feed-forward network in float32 on one thread. Parameters and gradients are one flat vector each,
 * with a table of named views, so that codecs, optimizers, files and the wire all see the same thing.
 * Activations for max_batch samples are laid out once; nothing is allocated afterwards. */
#ifndef PSGD_NET_H
#define PSGD_NET_H

#include <stddef.h>
#include <stdint.h>

#include "shared/err.h"
#include "shared/model_spec.h"
#include "shared/tensor_file.h"

struct net;

int net_new(struct net **out, const struct model_spec *spec, int max_batch, struct err *e);
void net_free(struct net *net);

size_t net_n_params(const struct net *net);
float *net_params(struct net *net); /* (n_params) */
float *net_grads(struct net *net);  /* (n_params) */

/* The named views into params, in order; type F32. Names as "layer0.dense.weight" (in, out),
 * "layer0.dense.bias" (out). */
size_t net_tensors(struct net *net, const struct tensor_view **out);

/* Initial weights, a function of the seed alone. */
void net_init(struct net *net, uint64_t seed);

struct net_score {
    double loss;       /* sum over the samples */
    size_t n, n_right; /* samples, and those whose largest output is their label */
};

/* Forward and backward over n <= max_batch samples: x (n, n_in), labels (n). grads = gradient of the mean
 * loss, overwritten. Adds to *score. */
void net_train(struct net *net, const float *x, const uint8_t *labels, int n, struct net_score *score);
/* Forward only. Adds to *score. */
void net_evaluate(struct net *net, const float *x, const uint8_t *labels, int n, struct net_score *score);

#endif
