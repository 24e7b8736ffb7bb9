/* workload -- what the workers of a simulation compute: gradients of stand-ins of any size
 * (workload_standin.c), of a network on the job's data (workload_network.c), or a function of a training
 * program (workload_clients.c). All nodes share one workload; each has its own vectors. */
#ifndef PSGD_WORKLOAD_H
#define PSGD_WORKLOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "nn/net.h"
#include "runner/core/step.h"
#include "shared/base/err.h"
#include "shared/job/blocks.h"
#include "shared/job/settings.h"
#include "shared/job/simulation.h"
#include "shared/trainer/trainer_wire.h"

struct workload;

struct workload_batch { /* of one block in one step of the job, counted from 0 */
    int node;           /* the worker that computes it */
    int i;              /* its number among the blocks of that worker, from 0 */
    int block;
    uint64_t step;
    double lr_factor; /* of the rule, for a workload that updates */
};

struct workload_metric {
    char name[TRAINER_TEXT];
    double value;
};

/* The result of `evaluate`, if it is neither 0 nor a code: there is no evaluation. */
enum { WORKLOAD_HAS_NO_TEST = 1 };

/* Functions with `e` return 0 or a code: only those of a program can fail. */
struct workload_ops {
    /* Sets the initial weights of every node. */
    void (*begin)(struct workload *load, float *params);
    /* The computing of a batch begins, whose gradient or training is asked for later, with the same params;
     * NULL: nothing is done before that. */
    int (*start)(struct workload *load, const struct workload_batch *b, const float *params, struct err *e);
    /* Computes the mean gradient of a batch into grads. Adds to *score. NULL: it trains. */
    int (*gradient)(struct workload *load, const struct workload_batch *b, const float *params, float *grads,
                    struct net_score *score, struct err *e);
    /* Updates params, at the learning rate *lr. NULL: it computes gradients. */
    int (*train)(struct workload *load, const struct workload_batch *b, float *params,
                 struct step_result *result, double *lr, struct err *e);
    /* After so many steps of the node that evaluates. *accuracy NAN: none. */
    int (*evaluate)(struct workload *load, const float *params, uint64_t step, double *loss, double *accuracy,
                    struct err *e);
    /* Where the test set is divided (n_test_sums > 0): *sums of the node's part of it, and the results of the
     * sums of all nodes. */
    void (*test)(struct workload *load, int node, const float *params, double *sums);
    void (*score)(struct workload *load, const double *sums, double *loss, double *accuracy);
    /* Measures a step and an evaluation. NULL: costs.c does, by repeating them. */
    int (*measure)(struct workload *load, double *step_s, double *eval_s, struct err *e);
    /* *out: the tensors of a model file, as views of `params`; if that is NULL, of a vector that the workload
     * owns. Valid until the next call. Returns their number. */
    size_t (*tensors)(struct workload *load, const float *params, const struct tensor_view **out);
    /* why_failed: NULL: the simulation has succeeded. */
    void (*free)(struct workload *load, const char *why_failed);
};

struct workload { /* the common part, at the beginning of each one's struct */
    const struct workload_ops *ops;
    size_t n_params, n_trained; /* running statistics follow the trained ones, as in nn/net.h */
    const float *momentum;      /* (n_params - n_trained) net_momentum(); NULL: there are no statistics */
    bool has_labels;            /* accuracy is defined; of a program: one has been given */
    struct step_text text;
    size_t n_test_sums;            /* shared/job/test_part.h; 0: each node evaluates on the whole test set */
    bool has_test;                 /* loss of an evaluation is defined */
    double spent_s;                /* real time of a network's gradients and evaluations so far */
    const char *arch;              /* the model's document; NULL: none */
    const char *preprocessing;     /* the record of that name; NULL: none */
    size_t *ranges;                /* of the servers: placement_lay_out() */
    const struct model_spec *spec; /* NULL: none */
    /* (n_metrics): what a program has logged in the last step or evaluation; valid until the next call. */
    const struct workload_metric *metrics;
    size_t n_metrics;
};

/* Least squares towards a known point w*: a block's gradient is w - w* plus its own noise, the loss is the
 * mean of (w - w*)^2 / 2. Every rule that averages gradients or weights finds w*, and the loss shows how
 * fast. */
int workload_standin(struct workload **out, size_t n_params, uint64_t seed, struct err *e);

/* The job's own network and data: model.json, test.safetensors and train-N.safetensors of `folder`. The
 * settings and blocks are not copied. */
int workload_network(struct workload **out, const struct settings *set, const struct blocks *b,
                     const char *folder, struct err *e);

/* A function of a training program: its package, model.json and weights.safetensors of `folder`. The settings
 * and blocks are not copied. ERR_TRAINER: client_pool.h. */
int workload_clients(struct workload **out, const struct settings *set, const struct simulation *how,
                     const struct blocks *b, const char *folder, struct err *e);

#endif
