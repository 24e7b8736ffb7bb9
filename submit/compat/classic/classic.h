/* classic -- the files that Parallel-SGD leaves, made from the results of a job (--csv-style). They are
 * written to the current folder, as there, and replace those of an earlier run of the same names; the results
 * of psgd stay complete without them. */
#ifndef PSGD_SUBMIT_CLASSIC_H
#define PSGD_SUBMIT_CLASSIC_H

#include <jansson.h>

#include "submit/job/submission.h"

/* Prints the ten options of a job that Parallel-SGD prints at its start, unless the style is psgd's own. */
void classic_echo(const struct options *o);

/* Checks before the job that the current folder can be written to. */
int classic_prepare(const struct submission *s, struct err *e);

/* Writes the files of s->csv_style, if any, from the result folder and its run.json. ERR_IO, ERR_NOMEM. */
int classic_write(const struct submission *s, const json_t *run, struct err *e);
/* The same; on failure prints why, and the results count as incomplete. */
void classic_try(struct submission *s, const json_t *run);

#endif
