/* schedule -- the learning rate of each step, a pure function of the settings and the step.
 *
 *   constant                 r
 *   step:every=5,factor=0.1  r factor^(epochs / 5): multiplied by `factor` (0.1) after each 5 epochs
 *   step:every_steps=1000    the same, in steps
 *   cosine                   r (1 + cos(pi t / T)) / 2        Loshchilov and Hutter 2017, eq. 5, one period
 *   linear                   r (1 - t / T)
 *   cosine:floor=0.1         r (f + (1 - f) (1 + cos(pi t / T)) / 2): it ends at f r, not at 0; linear, too
 *   sqrt                     r / sqrt(t + 1)                  Zinkevich 2003
 *
 * t is the number of steps before this one, T that of the whole job. A warm-up of W steps comes first: r (t
 * + 1) / (W + 1) while t < W, "gradual warmup" of Goyal et al. 2017, section 2.2. Then the schedule begins
 * with t - W and T - W, as if the job began there. */
#ifndef PSGD_SCHEDULE_H
#define PSGD_SCHEDULE_H

#include <stdbool.h>
#include <stdint.h>

#include "shared/base/err.h"

enum schedule_kind {
    SCHEDULE_CONSTANT,
    SCHEDULE_STEP,
    SCHEDULE_COSINE,
    SCHEDULE_LINEAR,
    SCHEDULE_SQRT,
    N_SCHEDULE_KINDS
};

struct schedule {
    enum schedule_kind kind;
    uint64_t every; /* of SCHEDULE_STEP */
    bool in_epochs; /* unit of `every`: epochs, else steps */
    double factor;
    double floor; /* of SCHEDULE_COSINE, SCHEDULE_LINEAR */
};

struct schedule_job {  /* the job that the schedule is for */
    double learn_rate; /* r */
    uint64_t warmup_steps, steps_per_epoch, n_steps;
};

/* ERR_CONFIG: not one of the forms above; the message lists them. */
int schedule_parse(struct schedule *s, const char *text, struct err *e);
/* Returns the rate of the step after `done` steps. */
double schedule_rate(const struct schedule *s, const struct schedule_job *job, uint64_t done);

#endif
