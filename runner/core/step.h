/* step -- one training step of a node, without sockets, clocks and files: the policy for values that are not
 * finite, the mean gradient over a worker's blocks, the update, the values of a row of train.csv. worker.h
 * calls them in this order, for every driver:
 *
 *   step_begin       time and bytes from now on belong to this step
 *   step_add_block   (or step_abstain) for each of the worker's blocks, after its gradient was computed
 *   step_exchange    passes the mean gradient to the codec; while it waits, the caller passes in events
 *   step_update      params <- the optimizer's step with the exchanged gradient
 *
 * Where a program trains with an optimizer of its own, step_add_result takes the place of step_add_block, and
 * instead of step_update
 *
 *   step_release     checks the exchanged gradient; then the program updates params
 *   step_updated     it has done so
 *
 * And then
 *
 *   exchange_on_step the codec's exchange of the parameters, which may wait, too
 *   step_end         the row; the next step begins
 *
 * A server takes no steps: its codec requests updates, by step_apply. */
#ifndef PSGD_STEP_H
#define PSGD_STEP_H

#include "nn/net.h"
#include "nn/optimizer.h"
#include "runner/exchange/exchange.h"
#include "shared/job/schedule.h"
#include "shared/job/settings.h"
#include "shared/job/stop.h"
#include "shared/records/record.h"

/* Text on which a model of language is trained and tested; {0}: the samples are no text. */
struct step_text {
    uint64_t tokens;        /* of a step of all workers */
    double bytes_per_token; /* in the test set; 0: not known */
};

struct step_config { /* all pointers are borrowed until step_close */
    const struct settings *set;
    const struct schedule *schedule;
    struct exchange *exchange;
    const struct codec_layer *layers; /* (n_layers), of the whole model */
    int n_layers;
    int node;
    float *params;              /* (n_params) */
    size_t n_params, n_trained; /* running statistics follow the trained parameters: nn/net.h */
    const float *momentum;      /* (n_params - n_trained) net_momentum(); NULL: there are no statistics */
    int n_blocks;               /* gradients that a worker computes in a step; 0: a server */
    bool has_labels;            /* otherwise rows have no accuracy */
    struct step_text text;
    bool updates_outside; /* a program computes and updates: set->trainer; n_blocks is 1 */
    /* Warns the user that values were left out, once; NULL: nothing is printed. */
    void (*warn)(void *owner, const char *text);
    void *owner; /* its first argument */
};

/* What a program reports of a step: means over its samples. */
struct step_result {
    size_t n;              /* samples; 0: the worker contributes nothing, and the rest is not used */
    double loss, accuracy; /* accuracy NAN: none */
    bool is_finished;      /* the worker has no more data: n is 0 from now on */
};

struct step {
    struct step_config cfg;
    struct optimizer *optimizer; /* of the parameters updated on this node; NULL: none. Owned */
    /* A step that is not finite is left out; otherwise it ends the job. A program's updates cannot be. */
    bool may_skip;
    uint64_t n_done, n_samples; /* completed steps, and samples seen in them */
    uint64_t place;             /* of the present mini-batch, if workers share them: exchange/feed.h */
    uint64_t n_left_out;        /* gradients and updates */
    double loss, accuracy;      /* mean over the last step's samples; NAN: none */
    double lr, grad_norm;       /* of the last update */

    /* Internal: the present step. */
    bool checks_late;    /* gradients are checked at the update, not when they are added */
    bool gets_gradients; /* updates use gradients of an exchange with other nodes */
    float *sum;          /* (n_params): the mean of the blocks' gradients; NULL: one block */
    float *grads;        /* the gradient added last */
    int n_added;
    bool abstains;
    bool cause_is_unknown; /* the last update failed: a sum is not finite, and its cause is not known */
    struct net_score score;
    struct step_result result; /* of a program */
    double begun, spent[N_STEP_PHASES];
    struct exchange_totals before;
};

/* Does the update depend on the gradient's norm? Then the norm takes a pass of its own before it. */
bool step_needs_norm(const struct settings *set);

/* Opens the optimizer if the exchange updates parameters on this node. ERR_NOMEM; ERR_CONFIG: as
 * step_optimizer_new. */
int step_open(struct step *s, const struct step_config *cfg, struct err *e);
void step_close(struct step *s);

void step_begin(struct step *s);
/* The number of the present mini-batch in the job, from 0: `place`, or the number of the step. Learning rate
 * and random numbers depend on it. */
uint64_t step_place(const struct step *s);
/* `grads` (n_params): the gradient of one block, whose loss and hits are in *score. A gradient that is not
 * finite ends the job (ERR_NUMERIC). With --on-nonfinite skip, zeros are sent instead, with this node's
 * running statistics, so that no node waits and all nodes still use the same gradient. After the last block
 * `grads` is the mean of all. */
int step_add_block(struct step *s, float *grads, int block, const struct net_score *score, struct err *e);
/* The same for a program's step. grads NULL: the rule does not read it (exchange_reads_gradient). They become
 * zeros if the worker contributes nothing. */
int step_add_result(struct step *s, float *grads, const struct step_result *r, struct err *e);
/* Call in place of step_add_block if this worker does not take part in the round. */
void step_abstain(struct step *s);
int step_exchange(struct step *s, struct err *e); /* as exchange_on_grad */
/* Updates, and counts the step as done. ERR_NUMERIC: the exchanged gradient is not finite, because a peer has
 * sent such values, or sums overflow float. If steps may be skipped, the update is left out instead: under a
 * rule that exchanges gradients all nodes have the same values, and decide the same. */
int step_update(struct step *s, struct err *e);
/* ERR_NUMERIC: as step_update. */
int step_release(struct step *s, struct err *e);
/* `lr`: the learning rate of the program's update. Counts the step as done. ERR_TRAINER: it is no number. */
int step_updated(struct step *s, double lr, struct err *e);
/* After another node has reported that the sum of a step is not finite. ERR_NUMERIC: this node's gradient in
 * that sum was not finite. Not for nodes that share memory, where the sum overwrites the gradient. */
int step_check_own(struct step *s, struct err *e);
/* Do all workers evaluate after the last step, because of --eval-every or the end of an epoch? */
bool step_is_evaluated_by_all(const struct step *s);
bool step_is_last(const struct step *s); /* is the step done last the job's last? */
/* Why the job ends, if it ends before the end of its epochs. */
struct stop step_stop(const struct step *s);
/* `started`: the time of the exchange's stopwatch from which a row's time_s counts. */
struct record_train step_end(struct step *s, double started);
/* Sets tokens, perplexity and bits_per_byte of the row of an evaluation, from its loss. */
void step_describe_text(const struct step *s, struct record_eval *row);
bool step_is_recorded(const struct step *s);  /* by --record-every, after step_end */
bool step_is_evaluated(const struct step *s); /* by --eval-every */

/* Updates params [from, from + n) by `grads` (n), as in step `step` (from 0), at lr_factor times its learning
 * rate; for exchange_config.update. `norm`: of the whole gradient, if grads are a range of it; NULL: grads
 * are the whole gradient. ERR_NUMERIC: as step_update. */
int step_apply(struct step *s, size_t from, size_t n, const float *grads, uint64_t step, float lr_factor,
               const double *norm, struct err *e);

/* ERR_NUMERIC: the loss on the test set is not finite, and this was the last evaluation, or the weights are
 * not finite either, so that no step can be skipped any more. */
int step_check_test(const struct step *s, double loss, bool is_last, struct err *e);

#endif
