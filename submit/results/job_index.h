/* job_index -- what this user has submitted: $XDG_STATE_HOME/psgd/jobs/ID.json, so that wait, fetch, logs,
 * cancel and list find a job's agents and folder again. Ids sort by time. No secrets: tokens are found again
 * each time. */
#ifndef PSGD_SUBMIT_JOB_INDEX_H
#define PSGD_SUBMIT_JOB_INDEX_H

#include "submit/stages/submission.h"

/* What a job is, and why it ended where it did not succeed: the part that the index and run.json share. NULL:
 * no memory. */
json_t *job_index_json(const struct submission *s);

int job_index_save(const struct submission *s, struct err *e);
/* Fills an initialised submission. `id` may be the beginning of one, or NULL for the latest.
 ERR_NOT_FOUND. */
int job_index_load(struct submission *s, const char *id, struct err *e);
void job_index_forget(const char *id);

/* All ids, oldest first; the caller frees the list and each. */
int job_index_list(char ***ids, size_t *n, struct err *e);

#endif
