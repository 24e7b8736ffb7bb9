/* run_json -- a job as its folder of results describes it: run.json, README.txt, and the table on stdout,
 * with the sums and means over the nodes, the limit of the job's speed, and the reason for an early end. */
#ifndef PSGD_SUBMIT_RUN_JSON_H
#define PSGD_SUBMIT_RUN_JSON_H

#include <stdio.h>

#include "submit/job/submission.h"

/* The contents of run.json, which the caller owns. NULL: no memory. */
json_t *run_json(const struct submission *s);

/* Replaces run.json. At the start of a job too, because the file marks the folder as this job's. */
int run_json_save(const struct submission *s, struct err *e);

/* Writes README.txt and run.json, the last files of the folder. */
int run_json_write(struct submission *s, struct err *e);

/* Prints state, accuracy, loss, bytes and time of each node; then, if there are any, the result files. With
 * --quiet only the table, warnings and the folder. */
void run_json_print(FILE *f, const struct submission *s);

#endif
