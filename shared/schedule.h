/* schedule -- the learning rate of each step, as the job's settings say it: a pure function of the step.
 *
 *   constant                 r
 *   step:every=5,factor=0.1  r factor^(epochs / 5): after each 5 epochs `factor` (0.1) times the rate before
 *   step:every_steps=1000    the same after each so many steps
 *   cosine                   r (1 + cos(pi t / T)) / 2        Loshchilov and Hutter 2017, eq. 5, one period
 *   linear                   r (1 - t / T)
 *   sqrt                     r / sqrt(t + 1)                  Zinkevich 2003
 *
 * t is the number of steps before this one, T that of the whole job. A warm-up of W steps goes before:
 * r (t + 1) / (W + 1) while t < W, "gradual warmup" of Goyal et al. 2017, section 2.2. Then the schedule
 * begins, as if the job began there: with t - W and T - W. */
#ifndef PSGD_SCHEDULE_H
#define PSGD_SCHEDULE_H

#include <stdbool.h>
#include <stdint.h>

#include "shared/err.h"

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
    bool in_epochs; /* is `every` */
    double factor;
};

struct schedule_job {  /* what the schedule is laid over */
    double learn_rate; /* r */
    uint64_t warmup_steps, steps_per_epoch, n_steps;
};

/* ERR_CONFIG: not one of the texts above, whole; the sentence says what is. */
int schedule_parse(struct schedule *s, const char *text, struct err *e);
/* The rate of the step before which `done` steps were taken. */
double schedule_rate(const struct schedule *s, const struct schedule_job *job, uint64_t done);

#endif
