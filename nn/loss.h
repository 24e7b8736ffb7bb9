/* loss -- loss functions of the last layer's outputs z (n, k); shared/job/model_spec.h has the formulas.
 *
 * The truth of a batch is labels (n), each < k (< 2 if k = 1), or targets (n, k); the other one is NULL. n
 * are the samples, under token_cross_entropy the steps of all samples. */
#ifndef PSGD_LOSS_H
#define PSGD_LOSS_H

#include <stddef.h>
#include <stdint.h>

#include "shared/job/model_spec.h"

struct truth {
    const int32_t *labels;
    const float *targets;
};

/* Returns the sum over the samples of the loss and adds the number of correctly classified samples to
 * *n_right. The predicted class is the largest output, the first of equal ones; for k = 1 it is class 1 if
 * the output is above 0 (mse, tanh_squared: above 1/2). With targets nothing is added. dz (n, k), unless
 * NULL: the gradient of the mean over the samples; it must not be z. A NaN in z makes the loss NaN. */
double loss_of(enum loss_kind kind, const float *z, const struct truth *t, int n, int k, float *dz,
               size_t *n_right);

/* Returns the class predicted by one sample's outputs z (k). */
int loss_class(enum loss_kind kind, const float *z, int k);
/* p (k): the prediction by one sample's outputs z (k): softmax(z) under softmax_cross_entropy and
 * token_cross_entropy, the logistic function of each under sigmoid_cross_entropy, else z. */
void loss_prediction(enum loss_kind kind, float *p, const float *z, int k);
/* Returns the number of outputs in z (k) that rank before the label's: 0 if the label is the predicted
 * class. */
int loss_rank(const float *z, int k, int label);

#endif
