/* sweep_table -- mean and deviation of the results of each combination. */
#ifndef PSGD_SUBMIT_SWEEP_TABLE_H
#define PSGD_SUBMIT_SWEEP_TABLE_H

#include "submit/results/compare.h"
#include "submit/sweep/sweep.h"

/* One result over the runs of a combination that have it. */
struct sweep_mean {
    size_t n;
    double mean, deviation; /* NAN without enough runs: 1, and 2 for the deviation, which divides by n - 1 */
};

struct sweep_mean sweep_mean_of(const double *values, size_t n); /* ignores values that are NAN */

/* Prints the table on stdout, or with `is_json` the document
 *     {"combinations": [{"values": {KEY: VALUE}, "runs": 3, "failed": 0,
 *                        "accuracy": {"mean": 0.97, "deviation": 0.001}, ..}]}
 * and writes sweep.csv: the keys, runs, failed, then accuracy_mean, accuracy_deviation and so on. Runs that
 * have not succeeded count as failed. */
int sweep_report(const struct sweep *s, bool is_json, struct err *e);

#endif
