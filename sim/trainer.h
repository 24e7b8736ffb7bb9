/* trainer -- source of a simulation's gradients: stand-ins of any size (trainer_standin.c), or a network on
 * the job's data (trainer_net.c). All nodes share one trainer; each has its own vectors. */
#ifndef PSGD_SIM_TRAINER_H
#define PSGD_SIM_TRAINER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "nn/net.h"
#include "shared/base/err.h"
#include "shared/job/blocks.h"
#include "shared/job/settings.h"

struct trainer;

struct trainer_batch { /* of one block in one step of the job, counted from 0 */
    int node;          /* the worker that computes it */
    int i;             /* its number among the blocks of that worker, from 0 */
    int block;
    uint64_t step;
};

struct trainer_ops {
    /* Sets the initial weights of every node. */
    void (*begin)(struct trainer *t, float *params);
    /* Computes the mean gradient of a batch into grads. Adds to *score. */
    void (*gradient)(struct trainer *t, const struct trainer_batch *b, const float *params, float *grads,
                     struct net_score *score);
    void (*evaluate)(struct trainer *t, const float *params, double *loss, double *accuracy); /* NAN: none */
    /* *out: the tensors of a model file, as views of `params`; if that is NULL, of a vector that the trainer
     * owns. Valid until the next call. Returns their number. */
    size_t (*tensors)(struct trainer *t, const float *params, const struct tensor_view **out);
    void (*free)(struct trainer *t);
};

struct trainer { /* the common part, at the beginning of each trainer's struct */
    const struct trainer_ops *ops;
    size_t n_params, n_trained;    /* running statistics follow the trained ones, as in nn/net.h */
    const float *momentum;         /* (n_params - n_trained) net_momentum(); NULL: there are no statistics */
    bool has_labels;               /* accuracy is defined */
    bool has_test;                 /* loss of an evaluation is defined */
    double spent_s;                /* real time of a network's gradients and evaluations so far */
    const char *arch;              /* the model's document; NULL: none */
    const char *preprocessing;     /* the record of that name; NULL: none */
    size_t *ranges;                /* of the servers: placement_lay_out() */
    const struct model_spec *spec; /* NULL: none */
};

/* Least squares towards a known point w*: a block's gradient is w - w* plus its own noise, the loss is the
 * mean of (w - w*)^2 / 2. Every rule that averages gradients or weights finds w*, and the loss shows how
 * fast. */
int trainer_standin(struct trainer **out, size_t n_params, uint64_t seed, struct err *e);

/* The job's own network and data: model.json, test.safetensors and train-N.safetensors of `folder`. The
 * settings and blocks are not copied. */
int trainer_network(struct trainer **out, const struct settings *set, const struct blocks *b,
                    const char *folder, struct err *e);

#endif
