/* classic -- the files that Parallel-SGD writes, made of the results of a job (--csv-style): CSV files,
 * training logs, models. They are written to the current folder, as by Parallel-SGD, and replace files of the
 * same names; the results of psgd are complete without them. */
#ifndef PSGD_SUBMIT_CLASSIC_H
#define PSGD_SUBMIT_CLASSIC_H

#include <jansson.h>

#include "submit/job/submission.h"

/* Prints the ten options of a job that Parallel-SGD prints at its start, unless the style is psgd's own. */
void classic_echo(const struct options *o);

/* Checks before the job that the current folder can be written to. ERR_IO. */
int classic_prepare(const struct submission *s, struct err *e);

/* Writes the files of s->csv_style, if any, from the result folder and its run.json. ERR_IO, ERR_NOMEM. */
int classic_write(const struct submission *s, const json_t *run, struct err *e);
/* The same; a failure is printed, and the results are incomplete. */
void classic_try(struct submission *s, const json_t *run);

#endif
