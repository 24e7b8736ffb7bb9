/* run_json -- run.json and README.txt of a result folder, and the result table on stdout. */
#ifndef PSGD_SUBMIT_RUN_JSON_H
#define PSGD_SUBMIT_RUN_JSON_H

#include <stdio.h>

#include "submit/job/submission.h"

/* All facts about the job. NULL: no memory. */
json_t *run_json(const struct submission *s);

/* Replaces run.json. Called at the start too, because the file marks the folder as this job's. */
int run_json_save(const struct submission *s, struct err *e);

/* Writes README.txt and run.json, the last files of the folder. */
int run_json_write(struct submission *s, struct err *e);

/* Prints state, accuracy, loss, bytes and time per node; then the list of result files, if any. With --quiet
 * no more than the table, warnings and the folder. */
void run_table(FILE *f, const struct submission *s);

#endif
