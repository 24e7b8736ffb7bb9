/* job_list -- the jobs that are shown, between the one thread that looks for them (main's, which scans
 * folders and asks agents) and the threads that answer the browser. */
#ifndef PSGD_BROWSE_JOB_LIST_H
#define PSGD_BROWSE_JOB_LIST_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "submit/browse/documents.h"

enum { LISTED_ID = 64, JOB_LIST_RECORDED = 256 };

struct listed_job {
    char id[LISTED_ID];
    char *folder; /* of its results, or, while it is only on agents, of copies of its files; NULL: none */
    char *run;    /* of a job on agents: its run.json so far, as text; NULL: that of the folder */
    json_t *line; /* of the list */
    bool can_cancel;
    uint64_t rows;    /* of a job that runs: about how many its nodes have recorded */
    uint64_t version; /* the list's: that of its line's last change */
};

/* Frees the array, and each job's strings and line. */
void listed_jobs_free(struct listed_job *jobs, size_t n);

struct job_list;
struct job_list *job_list_new(void); /* NULL: no memory */
void job_list_free(struct job_list *s);

/* These are for the main thread. Replaces the jobs (newest first) and agents, and takes ownership of both;
 * wakes the threads that wait for a change. */
void job_list_put(struct job_list *s, struct listed_job *jobs, size_t n, json_t *agents);
/* Takes a request of the other threads: the id of a job whose files are to be fetched anew, or that is to be
 * cancelled; false: there is none. Each is then answered with job_list_request_done; `e`: why it failed; code
 * 0: it is done. */
enum job_request_kind { JOB_REQUEST_FETCH, JOB_REQUEST_CANCEL };
bool job_list_take_request(struct job_list *s, enum job_request_kind *what, char id[LISTED_ID]);
void job_list_request_done(struct job_list *s, enum job_request_kind what, const char *id,
                           const struct err *e);
/* All waiting ends, now and later. */
void job_list_close(struct job_list *s);

/* These are for the other threads. The document of the list; the caller frees it. NULL: no memory. */
char *job_list_json(struct job_list *s);
/* Opens a job, and sets *line, which the caller owns. The files of a job on agents are fetched anew first, as
 * far as that takes at most 3 s. ERR_NOT_FOUND: there is no such job. */
int job_list_open_job(struct shown *out, json_t **line, struct job_list *s, const char *id, struct err *e);
/* Cancels a job, and waits for the agents. ERR_CONFLICT: it has ended, or is not on an agent. */
int job_list_cancel_job(struct job_list *s, const char *id, struct err *e);

/* How far a reader of the events has come; {0}: it has seen none. The event `jobs` has the whole list,
 * `changed` the jobs that have changed, and the agents, `recorded` {"id", "rows"}. Writes the next events of
 * the stream, or nothing within `timeout_s`. -1: the list is closed. */
struct job_list_reader {
    uint64_t list, recorded;
};
int job_list_events(FILE *out, struct job_list *s, struct job_list_reader *r, double timeout_s);

#endif
