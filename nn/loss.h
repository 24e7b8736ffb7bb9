/* loss -- on the outputs z (n, k) of the last layer; shared/model_spec.h has the formulas.
 *
 * A batch's truth is labels (n), each < k (of two classes where k = 1), or targets (n, k):
 * one of them is NULL. */
#ifndef PSGD_LOSS_H
#define PSGD_LOSS_H

#include <stddef.h>
#include <stdint.h>

#include "shared/model_spec.h"

struct truth {
    const int32_t *labels;
    const float *targets;
};

/* Returns the sum over the samples of the loss and adds to *n_right those whose class was found: the largest
 * output, the first of equal ones; for k = 1 an output above 0 (mse: above 1/2) says class 1.
 * Targets: nothing is right or wrong. dz (n, k), where it is not NULL: the gradient of the mean over the
 * samples; not z itself. A value of z that is not a number makes the loss none. */
double loss_of(enum loss_kind kind, const float *z, const struct truth *t, int n, int k, float *dz,
               size_t *n_right);

/* The class that one sample's outputs z (k) say. */
int loss_class(enum loss_kind kind, const float *z, int k);
/* How many of z (k) come before the label's own output: 0 where its class was found. */
int loss_rank(const float *z, int k, int label);

#endif
