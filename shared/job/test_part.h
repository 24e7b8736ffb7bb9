/* test_part -- the division of a job's test set over its workers (settings.divides_test): each evaluates the
 * model on its part, and their sums are those of the whole set (runner/exchange/test_sum.h). Worker k of n
 * has the samples floor(k N / n) .. floor((k + 1) N / n) - 1 of all N, in the order of the set. */
#ifndef PSGD_TEST_PART_H
#define PSGD_TEST_PART_H

#include <stddef.h>

#include "shared/base/err.h"
#include "shared/job/model_spec.h"
#include "shared/job/settings.h"

struct test_part {
    size_t first, n;
};

/* Of n_test samples, at least one for each worker. */
struct test_part test_part_of(size_t n_test, int n_workers, int worker);

/* The numbers by which an evaluation on several parts becomes one: first those that are real, the rest are
 * counts of samples. */
enum {
    TEST_REAL_SUMS = 2,
    TEST_SUMS_MAX = 8192 /* a message of 64 KiB: a confusion matrix of 90 classes */
};

/* The number of these numbers (nn/metrics.h, metrics_sums). 0: the test set cannot be divided, because the
 * model's document lists auc or eer, which need all samples in one place, or there are too many numbers. */
size_t test_sums_of(const struct model_spec *m);
/* The same in a job with these settings, for exchange_config; *out 0: its test set is not divided.
 * ERR_CONFIG: the settings divide a test set that cannot be divided. */
int test_sums_in(size_t *out, const struct settings *s, const struct model_spec *m, struct err *e);

#endif
