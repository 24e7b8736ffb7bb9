/* net -- a feed-forward network in float32 on one thread. Parameters and gradients are one flat vector each,
 * with a table of named views, so that codecs, optimizers, files and the wire all see the same thing.
 * Activations for max_batch samples are laid out once; nothing is allocated afterwards.
 *
 * The first n_trained parameters are the optimizer's. Behind them lie running statistics (batch_norm): their
 * "gradient" is what a step takes away, momentum * (running - of the batch), so that an exchange of gradients
 * keeps them equal on all nodes, as it does the weights. */
#ifndef PSGD_NET_H
#define PSGD_NET_H

#include <stddef.h>
#include <stdint.h>

#include "nn/loss.h"
#include "shared/err.h"
#include "shared/model_spec.h"
#include "shared/tensor_file.h"

struct net;

/* ERR_NOMEM: more than the machine has left; the sentence says how much. */
int net_new(struct net **out, const struct model_spec *spec, int max_batch, struct err *e);
void net_free(struct net *net);
/* What a net of that batch takes, all its vectors together. */
double net_bytes(const struct model_spec *spec, int max_batch);

size_t net_n_params(const struct net *net);
size_t net_n_trained(const struct net *net);
float *net_params(struct net *net); /* (n_params) */
float *net_grads(struct net *net);  /* (n_params) */
/* From now on gradients lie in the caller's `grads` (n_params), which must outlive the net. */
void net_use_grads(struct net *net, float *grads);

/* The named views into params, in the order of the layers; type F32. Names as "layer0.dense.weight" (in,
 * out), "layer0.dense.bias" (out). */
size_t net_tensors(struct net *net, const struct tensor_view **out);
/* Where the i-th of them begins among the parameters, and its gradient among the gradients. */
size_t net_tensor_offset(const struct net *net, size_t i);

/* Initial weights, a function of the seed alone. */
void net_init(struct net *net, uint64_t seed);

struct net_batch {
    const float *x; /* (n, n_in) */
    struct truth truth;
    int n;                 /* <= max_batch */
    uint64_t seed, stream; /* of dropout: equal ones drop the same */
    /* Called between two layers, forward and backward; NULL: nobody. The gradient comes to be from its end to
     * its front: from parameter `ready` on it is complete. */
    void (*between)(void *owner, size_t ready);
    void *owner;
};

struct net_score {
    double loss;       /* sum over the samples */
    size_t n, n_right; /* samples, and those whose class was found */
};

/* Forward and backward. grads = gradient of the mean loss, overwritten. Adds to *score. */
void net_train(struct net *net, const struct net_batch *b, struct net_score *score);
/* params -= grads for the running statistics, beside the optimizer's step. */
void net_step_state(struct net *net);

/* The outputs (n, n_out) for x, as evaluation has them; good until the next call. */
const float *net_forward(struct net *net, const float *x, int n);

/* The tensor in whose gradient a value is not finite, the last layer's first; NULL: all are finite. */
const char *net_nonfinite(const struct net *net);

#endif
