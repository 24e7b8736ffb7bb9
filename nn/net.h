/* net -- a feed-forward network in float32 on one thread. Parameters and gradients are one flat vector
 * each, with a table of named views, so that codecs, optimizers, files and the wire share one layout.
 * net_new() allocates the activations for max_batch samples; nothing is allocated afterwards.
 *
 * The optimizer updates the first n_trained parameters. The running statistics (batch_norm) follow them: in
 * place of a gradient they have the statistics of the batch, to which statistics_step() moves them, so that
 * an exchange of gradients keeps them equal on all nodes, like the weights. A batch's statistics do not
 * depend on the running ones, so those of a late gradient are still correct after other updates.
 *
 * The model of a training program (model_spec.has_trainer) is here the same vectors and views, without
 * layers: the program computes it, so net_train() and net_forward() must not be called. net_init() leaves
 * zeros, because its weights are always those of a file. The weight of a new batch in its statistics is 1. */
#ifndef PSGD_NET_H
#define PSGD_NET_H

#include <stddef.h>
#include <stdint.h>

#include "nn/loss.h"
#include "shared/base/err.h"
#include "shared/job/model_spec.h"
#include "shared/records/tensor_file.h"

struct net;

/* ERR_CONFIG: the batch has more steps or pixels than an int counts. ERR_NOMEM: more than the machine's
 * available memory; the message states both. */
int net_new(struct net **out, const struct model_spec *spec, int max_batch, struct err *e);
void net_free(struct net *net);
/* Returns the bytes of all vectors of a net with that batch size. */
double net_bytes(const struct model_spec *spec, int max_batch);

/* Returns the batch size for evaluations of a model trained with `batch_size`: a larger one, up to 256, where
 * it needs little memory. The last bits of a sample's outputs may depend on it. */
int net_test_batch(const struct model_spec *spec, int batch_size);

size_t net_n_params(const struct net *net);
size_t net_n_trained(const struct net *net);
/* (n_params - n_trained) the weight of a new batch in each running statistic; valid as long as the net. */
const float *net_momentum(const struct net *net);
float *net_params(struct net *net); /* (n_params) */
float *net_grads(struct net *net);  /* (n_params) */
/* Makes the net write gradients to the caller's `grads`, or keep its parameters, as they are now, in the
 * caller's `params` (n_params), which must outlive the net. */
void net_use_grads(struct net *net, float *grads);
void net_use_params(struct net *net, float *params);

/* The named views into params, in the model's order; type F32. Names of a layer's tensors are like
 * "layer0.dense.weight" (in, out), "layer0.dense.bias" (out). */
size_t net_tensors(struct net *net, const struct tensor_view **out);
/* Returns the offset of the i-th tensor in the parameters, which is that of its gradient in the gradients. */
size_t net_tensor_offset(const struct net *net, size_t i);

/* Initial weights, a function of the seed alone. */
void net_init(struct net *net, uint64_t seed);
/* The weights of a file that weights_check() has accepted with this prefix. */
void net_load(struct net *net, const struct tensor_file *f, const char *prefix);

struct net_batch {
    const float *x; /* (n, n_in) */
    struct truth truth;
    int n;                 /* <= max_batch */
    uint64_t seed, stream; /* of dropout; equal ones drop the same values */
    /* Called between layers, forward and backward; may be NULL. The gradient is computed from its end to
     * its front: it is complete from parameter `ready` on (of a model that is reordered: from the running
     * statistics on). */
    void (*between)(void *owner, size_t ready);
    void *owner;
};

struct net_score {
    double loss;       /* sum over the labels (model_spec_labels() of each sample), or the samples' targets */
    size_t n, n_right; /* labels, and those classified correctly */
};

/* Forward and backward. grads = gradient of the mean loss, overwritten. Adds to *score. */
void net_train(struct net *net, const struct net_batch *b, struct net_score *score);

/* Returns the outputs (n, n_out) for x in evaluation mode, valid until the next call. */
const float *net_forward(struct net *net, const float *x, int n);
/* Returns the outputs (n_out / time) of step t of one sample of a model of language (model_spec_language), of
 * whose tokens x (time) those up to t are read; valid until the next call. The steps before it are known from
 * net_step(), or from net_forward() with n = 1, of the same tokens there; no other pass may be between. A
 * model with layers that cannot compute a step alone (layer.h) computes all steps each time. */
const float *net_step(struct net *net, const float *x, int t);

#endif
