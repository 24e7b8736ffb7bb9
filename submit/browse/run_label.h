/* run_label -- what a user says of a run after its end: its note, its tags, and whether lists leave it out.
 * They are in run.json under "facts", as those that options give at the submission. */
#ifndef PSGD_BROWSE_RUN_LABEL_H
#define PSGD_BROWSE_RUN_LABEL_H

#include <jansson.h>

#include "submit/results/run.h"

/* Has the job ended, by its run.json? ERR_CONFLICT: no, so that its results will be written again. */
int run_label_check(const struct run *r, struct err *e);

/* Replaces labels: {"note": TEXT, "tags": [TEXT, ...], "hidden": true}, of which each may be missing, and
 * null removes one. They are replaced in run.json, in report.html and, unless the folder is a copy of the
 * job's, in the index. ERR_CONFLICT as of run_label_check(); ERR_IO, ERR_NOMEM. */
int run_label_set(struct run *r, const json_t *labels, struct err *e);

#endif
