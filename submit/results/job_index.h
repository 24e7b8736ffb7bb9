/* job_index -- the jobs this user has submitted: $XDG_STATE_HOME/psgd/jobs/ID.json, where wait, fetch,
 * logs, cancel and list find the agents and folder of a job. Ids sort by time. It holds no secrets: tokens
 * are looked up again each time. */
#ifndef PSGD_SUBMIT_JOB_INDEX_H
#define PSGD_SUBMIT_JOB_INDEX_H

#include "submit/files/job_id.h"
#include "submit/job/submission.h"

/* Description of a job and the cause of its failure: the part common to the index and run.json. NULL: no
 * memory. */
json_t *job_index_json(const struct submission *s);

int job_index_save(const struct submission *s, struct err *e);
/* `id` may be an id, the beginning of one, a name that only one job has, the folder of its results, or NULL
 * for the latest. ERR_NOT_FOUND: there is none; ERR_USAGE: there are several, and the hint has their ids. */
int job_index_read(json_t **out, const char *id, struct err *e);
/* The record of a job of exactly this id, of which job_id_is_valid() holds: reads one file and no list. */
int job_index_read_id(json_t **out, const char *id, struct err *e);
/* Fills an initialized submission. */
int job_index_load(struct submission *s, const char *id, struct err *e);
void job_index_forget(const char *id);
/* Replaces one of a job's facts, unless the index has no job of that id, or its results are in another folder
 * than this one. `value` is borrowed. ERR_IO, ERR_CONFIG: the record cannot be read; ERR_NOMEM. */
int job_index_set_fact(const char *id, const char *folder, const char *key, json_t *value, struct err *e);

/* The id of the latest job whose results are to be in the folder, an absolute path, if its end is not known;
 * "": there is none. */
int job_index_in_folder(char out[JOB_ID_MAX], const char *folder, struct err *e);

/* All ids, oldest first; the caller frees the list and each id. */
int job_index_list(char ***ids, size_t *n, struct err *e);

#endif
