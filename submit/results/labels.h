/* labels -- a run's note and tags: what people say of it. Its run.json has them under facts, as the index of
 * jobs has. */
#ifndef PSGD_SUBMIT_LABELS_H
#define PSGD_SUBMIT_LABELS_H

#include <stddef.h>

#include "submit/results/run_find.h"

enum { LABELS_MAX = 1024 };

/* "#TAG #TAG  NOTE", for people, without control characters; "": there are none. What does not fit is left
 * out. */
const char *labels_text(char *out, size_t size, const json_t *facts);

/* Replaces `key`, "note" or "tags", by `value`, whose ownership it takes: in run.json, in report.html and,
 * unless the folder is a copy of the job's, in the index. ERR_CONFLICT: the job has not ended, so that its
 * results will be written again. ERR_IO, ERR_NOMEM. */
int labels_set(struct run *r, const char *key, json_t *value, struct err *e);

#endif
