/* trainer -- where a simulation's gradients come from: stand-ins of any size (standin.c), or a network on
 * the job's data (network.c). One trainer serves all nodes: what is a node's own is its vectors. */
#ifndef PSGD_SIM_TRAINER_H
#define PSGD_SIM_TRAINER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "nn/net.h"
#include "shared/blocks.h"
#include "shared/err.h"
#include "shared/settings.h"

struct trainer;

struct trainer_batch { /* of one block in one step of the job, counted from 0 */
    int node;          /* that holds it ... */
    int i;             /* ... as its i-th one */
    int block;
    uint64_t step;
};

struct trainer_ops {
    /* Weights that every node begins with. */
    void (*begin)(struct trainer *t, float *params);
    /* The mean gradient of a batch into grads. Adds to *score. */
    void (*gradient)(struct trainer *t, const struct trainer_batch *b, const float *params, float *grads,
                     struct net_score *score);
    void (*evaluate)(struct trainer *t, const float *params, double *loss, double *accuracy); /* NAN: none */
    /* The views that a model file has, over `params`. Returns how many; they are good until the next call. */
    size_t (*tensors)(struct trainer *t, const float *params, const struct tensor_view **out);
    void (*free)(struct trainer *t);
};

struct trainer { /* the common part; each puts its own behind it */
    const struct trainer_ops *ops;
    size_t n_params, n_trained; /* behind the trained ones: running statistics, as nn/net.h has them */
    bool has_labels;            /* so that there is an accuracy */
    bool has_test;              /* so that there is a loss of an evaluation */
    double spent_s;             /* on this machine, by gradients and evaluations of a network so far */
    const char *arch;           /* the model's document; NULL: none */
};

/* Least squares towards a known point w*: a block's gradient is w - w* and noise of its own, the loss is
 * the mean of (w - w*)^2 / 2. So every rule that averages gradients or weights finds w*, and it is seen
 * how fast. */
int trainer_standin(struct trainer **out, size_t n_params, uint64_t seed, struct err *e);

/* The job's own network and data: model.json, test.safetensors and train-N.safetensors of `folder`. The
 * settings and blocks are borrowed. */
int trainer_network(struct trainer **out, const struct settings *set, const struct blocks *b,
                    const char *folder, struct err *e);

#endif
