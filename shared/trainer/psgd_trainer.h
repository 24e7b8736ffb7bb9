/* psgd_trainer -- lets a training program of yours be a worker of a psgd job: the program computes gradients
 * and updates its parameters by its own optimizer, psgd exchanges them by the job's rule.
 *
 *     struct psgd *p;
 *     const struct psgd_tensor layout[] = {{"W", 2, {784, 10}}, {"b", 1, {10}}};
 *     int what;
 *
 *     if (psgd_open(&p, layout, 2) < 0)
 *         die(psgd_error());
 *     float *w = psgd_params(p), *g = psgd_grads(p);
 *     initialize(w);                                 // kept only where the job has no values yet
 *     while ((what = psgd_next(p)) > PSGD_STOP) {
 *         if (what == PSGD_EVALUATE)
 *             psgd_evaluated(p, test_loss(w), test_accuracy(w), n_test);
 *         if (what != PSGD_GO)
 *             continue;
 *         double loss = gradient(g, w, batch);
 *         const float *by = psgd_gradient(p, loss, batch_size, lr);  // the combined gradient
 *         if (!by)
 *             die(psgd_error());
 *         for (size_t i = 0; i < n; i++)
 *             w[i] -= lr * by[i];
 *         psgd_stepped(p);
 *     }
 *     psgd_close(p);
 *
 * job_submit --trainer ./program starts one such program on each worker. Started by hand the program is a job
 * of one worker that exchanges nothing, and needs neither an agent nor a runner: psgd_is_alone().
 *
 * All vectors belong to psgd and are valid until psgd_close. The program may touch them only between two calls
 * of this header. One thread calls; there are no callbacks. Every call may wait for psgd, which ends each wait
 * when the job ends. Functions return < 0 on an error, whose sentence psgd_error() returns; the program should
 * then print it and end: its node has failed.
 *
 * This file and psgd_trainer.c need the C library only. */
#ifndef PSGD_TRAINER_H
#define PSGD_TRAINER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PSGD_DIMS = 8, PSGD_NAME = 128 };

struct psgd; /* the program's end */

struct psgd_tensor {
    const char *name; /* UTF-8, shorter than PSGD_NAME, unique */
    int n_dims;       /* 0: a number */
    size_t shape[PSGD_DIMS];
    bool is_statistic; /* running statistics, as of batch norm: averaged over workers, without a gradient */
};

struct psgd_plan {
    int node, n_nodes; /* this worker, from 0, of so many */
    uint64_t seed;
    uint64_t step, n_steps; /* steps done; of the job, at most (alone: 0, no limit) */
    uint64_t every;         /* local steps between two exchanges; 1: an exchange in each step */
    bool takes_gradients;   /* the rule combines or changes gradients, and not only parameters */
    bool takes_part;        /* in the present step; otherwise its gradient is not used, and may be left out */
    bool has_changed;       /* params are others than when the last call was made */
};

/* Announces the program's tensors and waits until psgd has accepted them: all workers must have the same.
 * Trained tensors lie one after the other in params, in this order, and the statistics behind them. */
int psgd_open(struct psgd **out, const struct psgd_tensor *tensors, int n);
void psgd_close(struct psgd *p); /* NULL is allowed. Before PSGD_STOP: the node has failed */
const char *psgd_error(void);    /* of the last call that failed; never NULL */

bool psgd_is_alone(const struct psgd *p); /* no job has started the program */
const struct psgd_plan *psgd_plan(const struct psgd *p);
size_t psgd_n_params(const struct psgd *p);
/* (n_params). After psgd_open the job's values, which the first psgd_next would otherwise take from here. */
float *psgd_params(struct psgd *p);
/* (n_params): the gradient of the mean loss; of a statistic, its value before minus its value after. */
float *psgd_grads(struct psgd *p);
/* Has the job values for the parameters? Otherwise what params hold at the first psgd_next become these. */
bool psgd_has_values(const struct psgd *p);

/* What psgd wants next. Going on without doing it is allowed for PSGD_EVALUATE, PSGD_SAVE and PSGD_RESTORE. */
enum {
    PSGD_STOP,     /* the job has ended; psgd_why() says why */
    PSGD_GO,       /* a step: psgd_gradient, the update, psgd_stepped */
    PSGD_EVALUATE, /* the model in params, which may be the rule's: psgd_evaluated */
    PSGD_SAVE,     /* write the program's state (optimizer, place in its data) to psgd_state_fd() */
    PSGD_RESTORE   /* read it from there */
};
int psgd_next(struct psgd *p);
const char *psgd_why(const struct psgd *p);
int psgd_state_fd(const struct psgd *p); /* valid until the next psgd_next */

/* The gradient of `samples` samples, whose mean loss is `loss`, is in psgd_grads(); `lr`: the rate of the
 * update to come. Returns the gradient for that update (n_params): the workers' combined one, or the program's
 * own; NULL: an error. accuracy: set psgd_accuracy() before, or leave it out. */
const float *psgd_gradient(struct psgd *p, double loss, size_t samples, double lr);
void psgd_accuracy(struct psgd *p, double accuracy); /* of the present step's samples */
/* After the update. A program that skipped psgd_gradient, because !plan->takes_gradients, passes the same
 * numbers to psgd_stepped_by instead. */
int psgd_stepped(struct psgd *p);
int psgd_stepped_by(struct psgd *p, double loss, size_t samples, double lr);
/* There is no more data: all later steps of this worker have weight 0. Then call psgd_next until PSGD_STOP. */
int psgd_finish(struct psgd *p);
int psgd_evaluated(struct psgd *p, double loss, double accuracy, size_t samples); /* accuracy NAN: none */
int psgd_log(struct psgd *p, const char *name, double value);                     /* a row of metrics.csv */

/* This worker's part of n rows, by the job's --partition: *index (n_index) row numbers in the order of the
 * first epoch, valid until psgd_close. labels (n): the rows' classes; NULL: none, for partitions that need
 * none. */
int psgd_shard(struct psgd *p, size_t n, const int32_t *labels, const uint32_t **index, size_t *n_index);

#endif
