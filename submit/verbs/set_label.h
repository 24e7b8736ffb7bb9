/* set_label -- sets the note or the tags of a run, for the verbs note and tag. */
#ifndef PSGD_SUBMIT_SET_LABEL_H
#define PSGD_SUBMIT_SET_LABEL_H

#include <jansson.h>

#include "submit/options/submit_options.h"
#include "submit/results/run_find.h"

/* Replaces `key`, "note" or "tags", by `value`, whose ownership it takes: in run.json, in report.html and,
 * unless the folder is a copy of the job's, in the index. ERR_CONFLICT: the job has not ended, so that its
 * results will be written again. ERR_IO, ERR_NOMEM. */
int labels_set(struct run *r, const char *key, json_t *value, struct err *e);

/* The same for the run that the first operand names, and prints its labels. Errors also as of run_find(). */
int set_label(const struct options *o, const char *key, json_t *value, struct err *e);

#endif
