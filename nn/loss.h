/* loss -- softmax and cross-entropy in one. */
#ifndef PSGD_LOSS_H
#define PSGD_LOSS_H

#include <stddef.h>
#include <stdint.h>

/* logits z (n, k), labels (n) each < k. Returns the sum over the samples of -log softmax(z)[label] and adds
 * to *n_right those whose largest logit, the first of equal ones, is their label. */
double loss_forward(const float *z, const uint8_t *labels, int n, int k, size_t *n_right);
/* The same, and dz (n, k) = (softmax(z) - one-hot(label)) / n: the gradient of the mean. */
double loss_backward(float *dz, const float *z, const uint8_t *labels, int n, int k, size_t *n_right);

#endif
