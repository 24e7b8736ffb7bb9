/* run_json -- run.json and README.txt of a result folder, and the table on the screen. */
#ifndef PSGD_SUBMIT_RUN_JSON_H
#define PSGD_SUBMIT_RUN_JSON_H

#include <stdio.h>

#include "submit/stages/submission.h"

/* Everything that is known about the job. NULL: no memory. */
json_t *run_json(const struct submission *s);

/* Replaces run.json; at the start already, for it marks the folder as this job's. */
int run_json_save(const struct submission *s, struct err *e);

/* Writes README.txt and run.json, which end the folder. */
int run_json_write(struct submission *s, struct err *e);

/* Per node state, accuracy, loss, bytes and time; then, if there are results, where they are. */
void run_table(FILE *f, const struct submission *s);

#endif
