/* stop_rule -- when a series of evaluations ends a job. Pure: nodes with the same results decide the same.
 *
 * v_n is the error of the n-th evaluation: 1 - accuracy, or the loss where there are no classes; an error
 * that is not finite is worse than all others.
 *
 *   target    accuracy_n >= target
 *   patience  K: v_n is the best so far if v_n <= min(v_1 .. v_n); then the count of bad evaluations
 *             restarts. Otherwise v_n is bad if n > K and v_n >= min(v_1 .. v_(n-K)). More than K bad
 *             ones end the job.
 *
 * The patience is that of the controller of platoon's LSTM example, which has it from the LSTM tutorial of
 * Theano. Keras and PyTorch Lightning count differently: K evaluations in a row without a better one. When
 * nothing improves, they stop K evaluations after the best one, this rule 2 K after it. */
#ifndef PSGD_STOP_RULE_H
#define PSGD_STOP_RULE_H

#include <stddef.h>

#include "shared/base/err.h"
#include "shared/job/stop.h"

struct stop_rule {
    double target; /* 0: none */
    int patience;  /* 0: none */
    /* The rest is {0} at the beginning. */
    double *errors; /* (n): v_1, ... */
    size_t n, room;
    double least, least_before; /* the least of all errors, and of those up to n - patience */
    size_t n_bad;
};

void stop_rule_clear(struct stop_rule *r);
/* Returns v_n. accuracy NAN: there is none. */
double stop_rule_error(double loss, double accuracy);
/* Adds the next evaluation. *out: STOP_NONE, or why it ends the job: STOP_TARGET_ACCURACY or STOP_PATIENCE.
 * ERR_NOMEM. */
int stop_rule_add(enum stop_reason *out, struct stop_rule *r, double loss, double accuracy, struct err *e);
/* Adds an evaluation of the earlier job that this one resumes: it does not end the job. */
int stop_rule_add_earlier(struct stop_rule *r, double error, struct err *e);

#endif
