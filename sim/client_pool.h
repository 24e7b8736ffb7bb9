/* client_pool -- the processes of a training program in a simulation (docs/trainer.md, "Many clients on one
 * machine"). Each computes for several workers in turn, which the records GO name; worker k is always
 * computed by process k mod n, which keeps its state. So the results do not depend on the number of
 * processes, and their memory not on that of workers.
 *
 * A call is begun when the worker's computing begins, and taken when its simulated time is over; between
 * these the processes compute at the same time. A result that is not taken yet when its process is needed
 * for another call is kept in a vector of its own.
 *
 * ERR_TRAINER: the program is no function, its tensors or rows are not those of the job, it has failed, has
 * ended or breaks the rules of the records; ERR_CANCELLED: a signal; ERR_NOMEM, ERR_IO. */
#ifndef PSGD_SIM_CLIENT_POOL_H
#define PSGD_SIM_CLIENT_POOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shared/base/err.h"
#include "shared/job/blocks.h"
#include "shared/job/model_spec.h"
#include "shared/job/settings.h"
#include "sim/workload.h"

struct client_pool;

struct client_pool_config { /* pointers are borrowed while the pool is used */
    const struct settings *set;
    const struct blocks *blocks;
    const struct model_spec *spec;
    const char *folder; /* with the package of the program, which is unpacked there */
    const char *python; /* the interpreter of a program in Python */
    int n_processes;    /* 0: as many as processors, or workers if these are fewer */
};

struct client_call {
    int node, block;
    uint64_t step;
    double lr_factor;    /* of the rule, on the rate of a function that updates */
    const float *params; /* (n_params), not to change until the call is taken */
};

struct client_answer {
    size_t n; /* samples; of an evaluation 0: the program has none */
    double loss, accuracy, lr;
    struct workload_metric *metrics; /* (n_metrics), valid until the next call for this worker */
    size_t n_metrics;
};

/* Starts the processes, and waits until all stand before their first step. */
int client_pool_open(struct client_pool **out, const struct client_pool_config *cfg, struct err *e);
/* why_failed: NULL: the simulation has succeeded. p: NULL is allowed. */
void client_pool_close(struct client_pool *p, const char *why_failed);

bool client_pool_gives_gradients(const struct client_pool *p);

int client_pool_begin(struct client_pool *p, const struct client_call *c, struct err *e);
/* *out (n_params): the parameters after the call, or the gradient. Begins the call if that has not been
 * done. */
int client_pool_take(struct client_pool *p, const struct client_call *c, float *out, struct client_answer *a,
                     struct err *e);
/* *seconds: of a call for worker 0 of which nothing is kept, or of an evaluation. */
int client_pool_measure(struct client_pool *p, const struct client_call *c, double *seconds, struct err *e);
int client_pool_evaluate(struct client_pool *p, const struct client_call *c, struct client_answer *a,
                         struct err *e);

#endif
