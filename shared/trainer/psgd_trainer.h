/* psgd_trainer -- makes a training program of yours a worker of a psgd job: the program computes gradients
 * and updates its parameters by its own optimizer, psgd exchanges them by the job's rule.
 *
 *     enum { N_W = 784 * 10, N_B = 10 };
 *     const struct psgd_tensor layout[] = {{"W", 2, {784, 10}, false}, {"b", 1, {10}, false}};
 *     struct psgd *p;
 *     int what;
 *
 *     if (psgd_open(&p, layout, 2) < 0)
 *         die(psgd_error());
 *     float *w = psgd_params(p), *g = psgd_grads(p); // (N_W + N_B): W, then b
 *     if (!psgd_has_values(p))
 *         initialize(w);
 *     psgd_batches(p, n_samples / batch_size);
 *     while ((what = psgd_next(p)) > PSGD_STOP) {
 *         if (what == PSGD_EVALUATE)
 *             psgd_evaluated(p, test_loss(w), test_accuracy(w), n_test);
 *         if (what != PSGD_GO)
 *             continue;
 *         double loss = compute_gradient(g, w, next_batch());
 *         const float *by = psgd_gradient(p, loss, batch_size, lr); // of all workers, or g
 *         for (size_t i = 0; by && i < N_W + N_B; i++)
 *             w[i] -= lr * by[i];
 *         psgd_stepped(p);
 *     }
 *     if (what < 0)
 *         die(psgd_error());
 *     psgd_close(p);
 *
 * job_submit --trainer ./program starts one such program on each worker. Started by hand it is alone: a job
 * of one worker that exchanges nothing, has no end, and needs neither an agent nor a runner (psgd_is_alone).
 * Where mpirun, torchrun --no_python or srun has started it, and PSGD_OPTIONS has the options of the job,
 * psgd_open starts psgd's process of this node, job_submit, of PSGD_JOB_SUBMIT or in PATH (docs/trainer.md).
 * It handles SIGTERM unless the program does: the launcher's signal ends the node, with its records, and
 * psgd_next then returns PSGD_STOP or an error.
 *
 * All vectors belong to psgd and are valid until psgd_close. The program may use them from psgd_open to the
 * first psgd_shard or psgd_next, and from each psgd_next to the last call that answers it (PSGD_GO and the
 * others below say which); in between psgd uses them. A call waits as long as psgd needs, and returns at once
 * when the job ends: the program sets no time limits.
 *
 * One thread of the process that called psgd_open makes all calls; a forked child, such as a process that
 * loads data, makes none. There are no callbacks. A function that returns int returns < 0 on an error, whose
 * sentence psgd_error() returns. An error is final: all later calls return it, too, so that it suffices to
 * check psgd_open and psgd_next, and that the result of psgd_gradient is not NULL. The program then prints
 * the sentence and ends: its node has failed.
 *
 * Compile psgd_trainer.c with the program, or link libpsgd_trainer.a: both need the C library only. */
#ifndef PSGD_TRAINER_H
#define PSGD_TRAINER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { PSGD_DIMS = 8, PSGD_NAME = 128 };

struct psgd; /* the program's connection with psgd */

struct psgd_tensor {
    const char *name; /* UTF-8, shorter than PSGD_NAME bytes, unique */
    int n_dims;       /* 0: a number */
    size_t shape[PSGD_DIMS];
    bool is_statistic; /* running statistics, as of batch norm: averaged over workers, without a gradient */
};

struct psgd_plan {
    int node, n_nodes; /* this worker, from 0, of so many */
    uint64_t seed;     /* of the job, the same on all workers */
    uint64_t step;     /* steps done, which a resumed job does not begin at 0 */
    uint64_t n_steps;  /* of the job, at most; 0: not known (alone) */
    uint64_t every;    /* local steps between two exchanges; 1: an exchange in each step */
    /* The rule combines or changes gradients, and not only parameters: each step needs psgd_gradient. */
    bool takes_gradients;
    /* In the present step. Otherwise this worker's gradient has weight 0: the program may leave its
     * computation out, and makes the same calls with 0 samples. */
    bool takes_part;
    bool has_changed; /* by the last psgd_next: params are not what the program left in them */
};

/* Announces the program's tensors, and waits until psgd has accepted them: all workers must have the same.
 * It is called once in a process. Its errors: the tensors differ from another worker's, a name or shape is
 * invalid, no memory, the job has ended. *out is NULL after an error. */
int psgd_open(struct psgd **out, const struct psgd_tensor *tensors, int n);
/* NULL is allowed. Before the job's end: this node has failed. Under a launcher it waits until the node's
 * records are written, and in process 0 until the results are; so does the program's exit. */
void psgd_close(struct psgd *p);
const char *psgd_error(void); /* of the last call of this thread that failed; never NULL */

bool psgd_is_alone(const struct psgd *p); /* the program takes part in no job */
/* Valid until psgd_close; psgd_next and psgd_stepped change it. */
const struct psgd_plan *psgd_plan(const struct psgd *p);

size_t psgd_n_params(const struct psgd *p);
/* (n_params): the values of the trained tensors, one after the other in the order of psgd_open, and behind
 * them those of the statistics. */
float *psgd_params(struct psgd *p);
/* (n_params), in the same order: the gradient of the mean loss. Of a statistic: its value before the step
 * minus its value after it. psgd does not set it to zero. */
float *psgd_grads(struct psgd *p);
/* Do params hold the job's values? Otherwise they are zeros, and the program sets them before its first
 * psgd_shard or psgd_next: alone, and where job_submit asks for the values that the job begins with. */
bool psgd_has_values(const struct psgd *p);

/* Before the first psgd_next: the batches in an epoch of this worker's data. Without it, or with 0, a job
 * needs job_submit --max-steps. */
void psgd_batches(struct psgd *p, uint64_t n);

/* What psgd wants next, and the calls that answer it. To leave an evaluation, a save or a restore out, the
 * program just calls psgd_next again. */
enum {
    PSGD_STOP,     /* nothing: the job has ended, for the reason in psgd_why(). Then psgd_close */
    PSGD_GO,       /* a step: psgd_gradient, the update, psgd_stepped; or psgd_finish */
    PSGD_EVALUATE, /* the model in params, which may be the rule's, not this worker's: psgd_evaluated */
    PSGD_SAVE,     /* write the program's state, as of its optimizer, to psgd_state_fd(): psgd_next */
    PSGD_RESTORE   /* read that state from psgd_state_fd(): psgd_next */
};
/* Returns one of these, when psgd wants it, or < 0: an error, or the job has failed. job_submit also starts a
 * program before the job, to learn tensors and values: there the first call ends the process by exit(0), so
 * that a program needs no code for this. */
int psgd_next(struct psgd *p);
const char *psgd_why(const struct psgd *p); /* after PSGD_STOP: a sentence; before: "" */
/* Of a file whose offset is its start, until the next psgd_next, which closes it: a program that uses fdopen
 * and fclose passes dup() of it. -1: psgd_next has returned neither PSGD_SAVE nor PSGD_RESTORE. The state may
 * be that of another version of the program. */
int psgd_state_fd(const struct psgd *p);

/* After PSGD_GO: psgd_grads() has the gradient of `samples` samples whose mean loss is `loss`; `lr` is the
 * rate of the update to come. Waits if the plan takes_gradients. Returns the gradient (n_params) for that
 * update, which is the combined one of the workers or the program's own, until psgd_stepped; a statistic
 * becomes its value before the step minus this. NULL: an error, or the job has ended. */
const float *psgd_gradient(struct psgd *p, double loss, size_t samples, double lr);
void psgd_accuracy(struct psgd *p, double accuracy); /* before psgd_gradient: of the step's samples */
/* By which a rule wants the rate of this step's update multiplied: 1, except where a codec of the user's sets
 * lr_factor. Ask after psgd_gradient, or before the update that psgd_stepped_by reports; a step whose factor
 * is not 1 fails if the program has not asked. The `lr` that it gives is its own, without the factor. */
double psgd_lr_factor(struct psgd *p);
int psgd_stepped(struct psgd *p); /* after the update */
/* In place of both calls, for programs whose library computes gradient and update in one: only if the plan
 * does not take gradients. */
int psgd_stepped_by(struct psgd *p, double loss, size_t samples, double lr);
/* The program has no more data: the step in which it stands, unless it has passed its gradient on, and all
 * later ones have weight 0. If the plan takes_gradients, psgd_next goes on to return PSGD_GO: make the same
 * calls, with 0 samples (others are not counted), so that the parameters follow the gradients that the other
 * workers combine. Otherwise call psgd_next, in the midst of this step, too. Both until PSGD_STOP: the job
 * ends when no worker has more data. */
int psgd_finish(struct psgd *p);
int psgd_evaluated(struct psgd *p, double loss, double accuracy, size_t samples); /* accuracy NAN: none */
/* A row of metrics.csv; alone: nothing. name: 1 to 64 of a-z, A-Z, 0-9 and _./:@%- */
int psgd_log(struct psgd *p, const char *name, double value);
/* The program gives up, for the reason in this sentence, which becomes the job's. Then psgd_close. */
void psgd_fail(struct psgd *p, const char *why);

struct psgd_data {
    size_t n_rows;
    const int32_t *labels; /* (n_rows): the rows' classes, from 0; NULL: none, if the partition needs none */
    size_t batch;          /* rows of a batch of one worker; 0: the worker gets all rows of its part */
    uint64_t epoch;        /* whose order is wanted, from 0 */
};
/* This worker's part of the rows, by the job's --partition: *index (*n_index) are row numbers in psgd's order
 * of that epoch, for which the caller calls free(). With a batch, each `batch` of them are the mini-batch
 * that psgd's own worker would take in that step, and all workers get the same number of them. Alone: all
 * rows, in their order. All workers pass the same rows. Not between psgd_stepped and psgd_next. */
int psgd_shard(struct psgd *p, const struct psgd_data *data, uint32_t **index, size_t *n_index);

#ifdef __cplusplus
}
#endif
#endif
