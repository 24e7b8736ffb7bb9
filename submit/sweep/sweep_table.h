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
 * accuracy_mean, accuracy_deviation and so on, diverged, target, reached, best (1 or 0). Writes
 * report.html. */
int sweep_report(const struct sweep *s, bool is_json, struct err *e);

/* Writes one of the files. ERR_NOMEM. */
typedef int sweep_put_report(FILE *f, const struct sweep *s, const struct sweep_results *r, struct err *e);
/* sweep_page.c: report.html, the tables in one file that needs no network, with links to the report of each
 * run. */
sweep_put_report sweep_put_page;

#endif
