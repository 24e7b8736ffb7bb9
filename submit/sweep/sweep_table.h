/* sweep_table -- the results of a sweep on stdout, in sweep.csv and in report.html. */
#ifndef PSGD_SUBMIT_SWEEP_TABLE_H
#define PSGD_SUBMIT_SWEEP_TABLE_H

#include <stdio.h>

#include "submit/sweep/sweep_results.h"
#include "submit/terminal/text.h"

/* Adds a row for each combination: accuracy, loss, seconds and bytes. */
void sweep_means_table(struct text_table *t, const struct sweep *s, const struct sweep_results *r);
/* Adds a row for the best combination of each group: how many runs reach the target, accuracy; bytes, seconds
 * and steps to the target. */
void sweep_best_table(struct text_table *t, const struct sweep *s, const struct sweep_results *r);
/* The sentences below the second table: what the target is, and which group needs the fewest bytes to it. */
enum { SWEEP_ANSWER = 1024 };
void sweep_answer(char out[SWEEP_ANSWER], const struct sweep *s, const struct sweep_results *r);

/* Prints both tables on stdout, or with `is_json` the document
 *     {"target": 0.95, "combinations": [{"values": {KEY: VALUE}, "runs": 3, "failed": 0, "diverged": 0,
 *         "reached": 3, "best": true, "accuracy": {"mean": 0.97, "deviation": 0.001}, ..}],
 *      "best": [2, 0]}
 * in which "best" has the index of the best combination of each group; the group that needs the fewest bytes
 * to the target is the first. Writes sweep.csv, a row for each combination: the keys, runs, failed,
 * accuracy_mean, accuracy_deviation and so on, diverged, target, reached, best (1 or 0). Of successive
 * halving a combination also has the rungs in which it took part:
 *     "rungs": [{"epochs": 2, "accuracy": 0.9, "reached": 3, "bytes_to_target": 5e6, "resumed": 3,
 *                "place": 2, "of": 4, "goes_on": true}]
 * and a row of sweep.csv has rung_1_epochs, rung_1_accuracy and so on, empty for other rungs. Writes
 * report.html. *n_failed: the runs that have not succeeded. */
int sweep_report(const struct sweep *s, bool is_json, size_t *n_failed, struct err *e);
/* Prints which combinations go on from the last rung that was read, and why. */
void sweep_print_rung(const struct sweep *s, const struct sweep_results *r);

/* Writes one of the files. ERR_NOMEM. */
typedef int sweep_put_report(FILE *f, const struct sweep *s, const struct sweep_results *r, struct err *e);
/* sweep_page.c: report.html, the tables in one file that needs no network, with links to the report of each
 * run. */
sweep_put_report sweep_put_page;

#endif
