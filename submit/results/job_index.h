/* job_index -- the jobs that this user has submitted: a record in $XDG_STATE_HOME/psgd/jobs/ID.json, in which
 * wait, fetch, logs, cancel and list find the agents and the folder of a job. Ids sort by time. A record has
 * no secrets: each command reads tokens from their files again. */
#ifndef PSGD_SUBMIT_JOB_INDEX_H
#define PSGD_SUBMIT_JOB_INDEX_H

#include "submit/files/job_id.h"
#include "submit/job/submission.h"

/* The record of a job, which is also a part of run.json: its settings, facts and nodes, and the cause of its
 * failure. NULL: no memory. */
json_t *job_index_json(const struct submission *s);

/* Writes the record of a job; a job folder has its own. ERR_IO, ERR_NOSPACE, ERR_NOMEM. */
int job_index_save(const struct submission *s, struct err *e);
/* Reads the record of a job. `id`: an id or a prefix of one, the name of a job, or the folder of its results;
 * NULL: the latest job. ERR_NOT_FOUND: no job matches; ERR_USAGE: several jobs match, and the hint has their
 * ids. */
int job_index_read(json_t **out, const char *id, struct err *e);
/* The same for a complete id, which job_id_is_valid() accepts: reads one file instead of the folder. */
int job_index_read_id(json_t **out, const char *id, struct err *e);
/* Fills an initialized submission from the record of a job; `id` as above, or a job folder. */
int job_index_load(struct submission *s, const char *id, struct err *e);
/* The same from a record that job_index_json() has made. ERR_CONFIG. */
int job_index_take(struct submission *s, const json_t *record, struct err *e);
/* Removes the record of a job, if there is one. */
void job_index_remove(const char *id);
/* Replaces a fact in the record of a job whose results are in `folder`. Does nothing if there is no such
 * record, or if it names another folder. `value` is borrowed. ERR_IO, ERR_CONFIG: the record cannot be read;
 * ERR_NOMEM. */
int job_index_set_fact(const char *id, const char *folder, const char *key, json_t *value, struct err *e);

/* out: the id of the latest job with its results in the folder, an absolute path, if the record has no end of
 * the job; else "". */
int job_index_in_folder(char out[JOB_ID_MAX], const char *folder, struct err *e);

/* All ids, oldest first; the caller frees the list and each id. */
int job_index_list(char ***ids, size_t *n, struct err *e);

#endif
