/* worker -- a node's part in a training job as a state machine, without socket, clock, file or network: the
 * order in which it computes, exchanges, updates, evaluates, records and saves. A driver calls worker_next,
 * which returns the next request, meets it, and reports the result; it owns time, data, model and disk.
 * Drivers: the runner in real time (runner/train.c, serve.c), the simulator in virtual time (sim/sim_node.c),
 * the tests' cluster in orders that a seed draws (tests/lib/cluster.c), and another program's training loop
 * (tests/unit/runner/test_worker.c). A program may also compute and update for itself (runner/trainer/): then
 * step_config.updates_outside is set, and each step is one WORKER_COMPUTES, whether the worker takes part or
 * not, and one WORKER_UPDATES.
 *
 * Each state is a function of worker.c. A worker's states (if a state waits for other nodes, WORKER_WAITS
 * comes before the next one):
 *
 *   state            what happens                                    request           next
 *   at_epoch         the next epoch begins                                             at_row
 *                    after the last one, or a decision ends the job                    at_close, at_end
 *   at_row           the next mini-batch                                               in_blocks
 *                    no program has data, and the last step is not known: waits        at_row
 *                    --feed shared: requests its number; may wait                      at_shared_row
 *                    none is left, or the job ends                                     at_epoch_end
 *   at_shared_row    the mini-batch is of this epoch                                   in_blocks
 *                    it is of a later one, or none is left                             at_epoch_end
 *   in_blocks        each of the worker's blocks                     WORKER_COMPUTES   at_gradient
 *                    it takes no part in this round                  WORKER_ABSTAINS   at_gradient
 *   at_gradient      the codec's exchange of gradients; may wait                       at_update
 *   at_update        the optimizer's step                                              at_updated
 *                    the step of a program's optimizer               WORKER_UPDATES    at_updated
 *   at_updated       before an extra round at the end                WORKER_SAVES      at_params
 *                    otherwise                                                         at_params
 *   at_params        the codec's exchange of params; may wait                          at_step_end
 *   at_step_end      rows of train.csv and comm.csv                  WORKER_RECORDS    at_vote
 *   at_vote          is a checkpoint asked for after it? may wait                      after_step
 *   after_step       --eval-every or the codec, within an epoch      WORKER_EVALUATES  at_share
 *                    no evaluation is due                                              at_point
 *   at_point         barrier before a checkpoint (asgd); may wait                      at_point_reached
 *                    no checkpoint is due within the epoch                             at_row
 *   at_point_reached the step's checkpoint                           WORKER_SAVES      at_row
 *   at_epoch_end     barrier before a checkpoint (asgd); may wait                      at_epoch_reached
 *   at_epoch_reached the last barrier or exchange changes params     WORKER_SAVES      at_epoch_eval
 *   at_epoch_eval    after the job's last epoch                                        at_close
 *                    an evaluation at the end of an earlier epoch    WORKER_EVALUATES  at_share
 *   at_close         last exchange, if a decision ends it; may wait                    after_close
 *   after_close      rows of comm.csv of that exchange               WORKER_RECORDS    at_last_barrier
 *   at_last_barrier  for the servers' model (asgd); may wait                           at_last_eval
 *   at_last_eval     unless this model was evaluated already         WORKER_EVALUATES  at_share
 *   at_test_sum      after an evaluation, if the test set is divided; waits                at_totals
 *   at_totals        the results on the whole test set               WORKER_SCORES     at_share
 *   at_share         evaluations that nodes decide by; may wait                        after_eval
 *   after_eval       within an epoch                                                   at_point
 *                    at an epoch's end, unless it is saved           WORKER_SAVES      at_epoch
 *   at_end           rows of traffic after the last step             WORKER_RECORDS    WORKER_IS_DONE
 *
 * at_saved comes after each WORKER_SAVES, before the state of the table, where a checkpoint that was asked
 * for (exchange/save_vote.h) waits until all workers have written theirs.
 *
 * An evaluation is recorded before the epoch's checkpoint is saved, so that a job that resumes from it has
 * all earlier rows. A job that exchanges once more after its last step saves the state before that exchange,
 * because a longer job has no exchange there.
 *
 * A server takes no steps: it waits for events until its last worker has left.
 *
 *   at_rounds        the rounds before a checkpoint are closed       WORKER_SAVES      at_rounds
 *                    no such checkpoint                                                at_barrier
 *   at_barrier       all workers wait before a checkpoint            WORKER_SAVES      at_release
 *   at_release       they continue; then an event of the mesh        WORKER_WAITS      after_event
 *                    after the last worker has left                  WORKER_IS_DONE
 *   after_event      rows of comm.csv                                WORKER_RECORDS    at_rounds
 *
 * Where a program updates, params may be older than its tensors after a step for which `stores` was not set.
 * Then WORKER_STORES comes before WORKER_EVALUATES, WORKER_SAVES, and the last exchange in at_close.
 *
 * The machine switches the phases of the exchange's stopwatch: what a request asks for is timed as the phase
 * of its state, and from WORKER_WAITS until the wait ends as PHASE_WAIT. */
#ifndef PSGD_WORKER_H
#define PSGD_WORKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "nn/net.h"
#include "runner/core/step.h"
#include "runner/exchange/exchange.h"
#include "shared/base/err.h"
#include "shared/job/settings.h"
#include "shared/records/record.h"

enum worker_wants {
    WORKER_GOES_ON, /* nothing to do; a simulator adds the time of the exchange's calls here */
    /* The gradient of a block of a mini-batch: then call worker_computed, or, of a program that also updates,
     * worker_reported */
    WORKER_COMPUTES,
    WORKER_ABSTAINS, /* nothing: this step has no gradient of this worker */
    WORKER_UPDATES,  /* the program's optimizer updates params: then call worker_updated */
    WORKER_STORES,   /* a program's own tensors are to be in params */
    WORKER_WAITS,    /* events of the mesh, until worker_waits is false; a server: one */
    /* The model on the test set: then call worker_evaluated. If test_sum_is_used, on this worker's part of
     * it: then put the sums into test_sum_numbers; WORKER_SCORES follows. */
    WORKER_EVALUATES,
    WORKER_SCORES,  /* the sums of all workers are there: then call worker_evaluated */
    WORKER_RECORDS, /* the row of train.csv, if there is one, and rows of comm.csv for a closed round */
    WORKER_SAVES,   /* a checkpoint */
    WORKER_IS_DONE, /* the node's part is over */
    N_WORKER_WANTS
};

enum worker_place { WITHIN_EPOCH, AT_EPOCH_END, AT_JOB_END };

struct worker_request {
    int epoch;       /* from 1: the present one */
    uint64_t step;   /* WORKER_SAVES: the steps that each worker has done at the checkpoint */
    size_t row;      /* WORKER_COMPUTES: of the mini-batch in its epoch, from 0 */
    int block, i;    /* WORKER_COMPUTES: the block's number; it is the worker's i-th block */
    bool takes_part; /* WORKER_COMPUTES: otherwise nothing of a program's step is used */
    bool stores;     /* WORKER_COMPUTES: a program's tensors are to be in params after the step */
    float lr_factor; /* WORKER_COMPUTES, WORKER_UPDATES: the rule's, on the learning rate of the update */
    /* WORKER_UPDATES: (n_params) the gradient to update by: that of worker_reported, perhaps changed, or a
     * vector of the exchange, valid until worker_updated. NULL: the program's own, which the rule does not
     * read. */
    const float *gradient;
    const struct record_train *train; /* WORKER_RECORDS, valid until the next call; NULL: no row */
};

struct worker_config { /* pointers are borrowed while the worker is used */
    const struct settings *set;
    struct exchange *exchange; /* attached to a mesh */
    struct step *step;         /* its config has node, blocks, exchange and settings of this node */
    const int *blocks;         /* (step's n_blocks) */
    uint64_t first_step;       /* steps done: of a checkpoint, or 0 */
    bool has_test;             /* there is a test set, whose loss must be a number */
    double started;            /* the time of the exchange's stopwatch from which rows' time_s counts */
};

struct worker {
    struct worker_config cfg;
    int epoch; /* from 1; 0: none yet. A server: the completed ones of its checkpoint, or 0 */

    /* Internal. */
    int (*state)(struct worker *, struct worker_request *, struct err *);
    bool waits;         /* until an event completes the last exchange */
    enum phase resumed; /* the phase after that wait, or after a checkpoint was saved */
    bool saves;
    int (*after_saved)(struct worker *, struct worker_request *, struct err *);
    uint64_t saved_step; /* of the present or last checkpoint */
    size_t row;
    int at_block;
    struct record_train train;
    enum worker_place at;  /* the present evaluation */
    uint64_t evaluated;    /* the step after which it has evaluated last */
    double loss, accuracy; /* of that evaluation, on the test set */
    bool is_whole;         /* the epoch is complete, and a longer job would have the same */
    bool is_saved;         /* the epoch's checkpoint is saved before the job's end */
    bool shares_last;      /* the job's last evaluation is shared, too */
    bool is_unevaluated;   /* the final model may differ from the one evaluated last */
    bool has_ended;
    uint64_t next_saved; /* server: the first step with a checkpoint whose rounds may still be open */
    bool is_behind;      /* params are older than the program's tensors */
    int held;            /* the request that follows WORKER_STORES; 0: none */
    uint64_t held_step;  /* of that request */
};

void worker_open(struct worker *w, const struct worker_config *cfg);
/* Goes to the next state; do not call it while worker_waits. Returns what the driver shall do (*request:
 * details), or a code: the node has failed, for the reason in *e. */
int worker_next(struct worker *w, struct worker_request *request, struct err *e);
/* grads (n_params): the block's gradient, whose loss and hits are in *score. ERR_NUMERIC: step_add_block. */
int worker_computed(struct worker *w, float *grads, const struct net_score *score, struct err *e);
/* The same for a program's step. grads NULL: exchange_reads_gradient is false. ERR_NUMERIC: as above. */
int worker_reported(struct worker *w, float *grads, const struct step_result *result, struct err *e);
/* lr: the learning rate of the program's update. ERR_TRAINER: step_updated. */
int worker_updated(struct worker *w, double lr, struct err *e);
/* accuracy NAN: there is none. ERR_NUMERIC: step_check_test. */
int worker_evaluated(struct worker *w, double loss, double accuracy, struct err *e);
/* Handles an event of the mesh, at any time; takes ownership of its buffer. Returns 0 or a code, as
 * exchange_on_event. */
int worker_event(struct worker *w, struct mesh_event *ev, struct err *e);
/* Is an event needed before worker_next may be called? */
bool worker_waits(const struct worker *w);

#endif
