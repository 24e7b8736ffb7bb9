/* metrics -- metrics of a model on a test set, accumulated batch by batch from its outputs z (n, k).
 * Under token_cross_entropy each step of a sample counts as a sample here.
 *
 *   loss       mean over the samples (nn/loss.h)
 *   accuracy   fraction of the samples that are classified correctly
 *   top2 ...   fraction of the samples whose label is among the two largest outputs (of equal ones the first
 *   top10      count), ... among the ten largest
 *   mse, rmse  mean over samples and outputs of (p - target)^2, its root. p is loss_prediction() of z; a
 *              label's target is its one-hot
 *   auc        area under the ROC curve of class 1: the fraction of pairs of a sample of class 1 and one of
 *              class 0 in which the first has the higher score, ties half (Hanley and McNeil 1982); exact.
 *              The score is z, of two outputs z_1 - z_0
 *   eer        equal error rate: the error at the threshold on the score of class 1 at which the share of
 *              class 0 that is accepted equals the share of class 1 that is rejected, interpolated linearly
 *              between the two neighboring scores
 *   confusion  how often each label was predicted as each class
 *
 * Accuracy, top-k, auc, eer and confusion need labels, and do not exist with targets. */
#ifndef PSGD_METRICS_H
#define PSGD_METRICS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "nn/loss.h"
#include "shared/base/err.h"
#include "shared/job/model_spec.h"

struct metrics;

/* Creates the metrics that `spec` lists, for test sets of at most n_max samples. ERR_CONFIG as
 * model_spec_measures(). */
int metrics_new(struct metrics **out, const struct model_spec *spec, bool has_labels, size_t n_max,
                struct err *e);
void metrics_free(struct metrics *m);

void metrics_begin(struct metrics *m); /* removes all samples */
void metrics_add(struct metrics *m, const float *z, const struct truth *t, int n);

double metrics_loss(const struct metrics *m);
bool metrics_asked(const struct metrics *m, enum metric_kind kind);
/* Returns false if the model's document does not list the metric (it need not list accuracy), if it needs
 * labels and there are none, or if it needs two classes and one of them did not occur. *value is NaN if an
 * output was NaN. */
bool metrics_value(struct metrics *m, enum metric_kind kind, double *value);
double metrics_accuracy(struct metrics *m); /* NAN: there is none */
/* The sums over the samples so far, test_sums_of() numbers; and the same of the whole test set, after which
 * the functions above return its metrics. */
void metrics_sums(const struct metrics *m, double *out);
void metrics_set_sums(struct metrics *m, const double *sums);
/* (*n_classes, *n_classes) by label and predicted class; NULL: the model's document does not list it. */
const uint64_t *metrics_confusion(const struct metrics *m, int *n_classes);

#endif
