/* aggregate -- the functions that can replace the mean when contributions of a rule that combines are
 * aggregated (--aggregate): each is a line here, and a file in runner/exchange/aggregators/. They bound the
 * influence of at most f of n workers that send arbitrary vectors (Byzantine workers). They need every
 * contribution at once, so they can be used on the paths gather and servers.
 *
 *   mean        the default, which the others replace: weighted, by the rule; on every path
 *   median      of each component: Yin, Chen, Ramchandran and Bartlett, "Byzantine-Robust Distributed
 *               Learning: Towards Optimal Statistical Rates", ICML 2018, Definition 1
 *   trimmed:f   the mean of each component without its f largest and f smallest values: the same paper,
 *               Definition 2
 *   krum:f      the contribution with the least sum of squared distances to its n - f - 2 nearest: Blanchard,
 *               El Mhamdi, Guerraoui and Stainer, "Machine Learning with Adversaries: Byzantine Tolerant
 *               Gradient Descent", NIPS 2017, section 4
 *   geomedian   the vector with the least sum of distances to all, by the smoothed Weiszfeld
 *               algorithm: Pillutla, Kakade and Harchaoui, "Robust Aggregation for Federated Learning", IEEE
 *               TSP 2022, Algorithm 2 */
#ifndef PSGD_AGGREGATE_H
#define PSGD_AGGREGATE_H

#include <stdbool.h>
#include <stddef.h>

#include "shared/base/err.h"

/* Constant, name, a and b of the least number of contributions, a f + b; function; function for running
 * statistics (batch_norm). These are not parameters: distances leave them out, so a chosen worker's could be
 * arbitrary. */
#define AGGREGATORS(A)                                                                                       \
    A(AGGREGATE_MEDIAN, "median", 0, 1, aggregate_median, aggregate_median)                                  \
    A(AGGREGATE_TRIMMED, "trimmed", 2, 1, aggregate_trimmed, aggregate_trimmed)                              \
    A(AGGREGATE_KRUM, "krum", 2, 3, aggregate_krum, aggregate_median)                                        \
    A(AGGREGATE_GEOMEDIAN, "geomedian", 0, 1, aggregate_geomedian, aggregate_median)

#define AGGREGATE_CONSTANT(constant, name, a, b, function, of_statistics) constant,

enum aggregate_kind { AGGREGATE_MEAN, AGGREGATORS(AGGREGATE_CONSTANT) AGGREGATE_KINDS };

struct aggregate {
    enum aggregate_kind kind;
    int f; /* of trimmed and krum, at least 1; else 0 */
};

/* "median", "krum:2". ERR_CONFIG: another name, or f is missing, or not an integer from 1. */
int aggregate_parse(struct aggregate *out, const char *text, struct err *e);
/* ERR_CONFIG: n contributions are too few; the message says how many are needed. */
int aggregate_check(const struct aggregate *a, int n, struct err *e);

/* Whether it measures distances between contributions, so that it needs whole contributions. Others aggregate
 * each component by itself. */
bool aggregate_compares(const struct aggregate *a);

#endif
