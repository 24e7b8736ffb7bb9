/* job_list -- the list of jobs, shared by the main thread, which finds jobs in folders and on agents, and the
 * threads that answer the browser. */
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
    /* The folder of its results, or, of a job that is only on agents, of copies of its files; NULL: none. */
    char *folder;
    char *run;    /* of a job on agents: its run.json so far, as text; NULL: the folder has run.json */
    json_t *line; /* document_line() */
    char *text;   /* the line as JSON; job_list_put() makes it */
    bool can_cancel;
    uint64_t rows;    /* of a running job: about the number of rows that its nodes have recorded */
    uint64_t version; /* of the list when the line last changed */
};

/* Frees the array, and each job's strings and line. */
void listed_jobs_free(struct listed_job *jobs, size_t n);

struct job_list;
struct job_list *job_list_new(void); /* NULL: no memory */
void job_list_free(struct job_list *s);

/* For the main thread. Replaces the jobs (newest first) and agents, takes ownership of both, and wakes the
 * threads that wait for a change. */
void job_list_put(struct job_list *s, struct listed_job *jobs, size_t n, json_t *agents);
/* Takes a request of another thread: to fetch the files of a job again, or to cancel it. False: there is
 * none. The main thread answers each with job_list_request_done(); `e`: the failure, or code 0. */
enum job_request_kind { JOB_REQUEST_FETCH, JOB_REQUEST_CANCEL };
bool job_list_take_request(struct job_list *s, enum job_request_kind *what, char id[LISTED_ID]);
void job_list_request_done(struct job_list *s, enum job_request_kind what, const char *id,
                           const struct err *e);
/* Has another thread changed a folder of results since the last call, so that folders are to be scanned
 * now? */
bool job_list_take_scan(struct job_list *s);
/* Ends all waiting, now and later. */
void job_list_close(struct job_list *s);

/* For the other threads. The document of the list, which the caller frees. NULL: no memory. */
char *job_list_json(struct job_list *s);
/* Opens a job, and sets *line, which the caller owns. The files of a job on agents are fetched again before;
 * that takes at most 3 s, after which out->stale says why they may be old. ERR_NOT_FOUND: there is no such
 * job. */
int job_list_open_job(struct shown *out, json_t **line, struct job_list *s, const char *id, struct err *e);
/* Sets *ids, which the caller frees, to the runs of the sweep with this folder: the jobs with results in its
 * runs/. ERR_NOT_FOUND: there are none; ERR_NOMEM. */
int job_list_find_sweep(char (**ids)[LISTED_ID], size_t *n, struct job_list *s, const char *folder,
                        struct err *e);
/* Cancels a job, and waits at most 20 s for its agents. ERR_CONFLICT: it has ended, or is on no agent.
 * ERR_TIMEOUT. */
int job_list_cancel_job(struct job_list *s, const char *id, struct err *e);

/* Has the main thread scan the folders soon. */
void job_list_ask_scan(struct job_list *s);
/* Keeps the folder of a job that was deleted; the last DELETED_MOST are kept. */
enum { DELETED_MOST = 1000 };
void job_list_note_deleted(struct job_list *s, const char *id, const char *folder);
/* out: the folder of a job that was deleted so. False: it is not among them. */
bool job_list_find_deleted(char *out, size_t size, struct job_list *s, const char *id);

/* The position of a reader in the stream of events; {0}: the start. The event `jobs` has the whole list,
 * `changed` the changed jobs and the agents, `recorded` {"id", "rows"} of a running job. */
struct job_list_reader {
    uint64_t list, recorded;
};
/* Writes the next events after the position, or nothing within `timeout_s`. -1: the list is closed. */
int job_list_events(FILE *out, struct job_list *s, struct job_list_reader *r, double timeout_s);

#endif
