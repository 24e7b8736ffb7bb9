/* job_list -- the jobs that are shown, between the one thread that looks for them (main's, which scans
 * folders and asks agents) and the threads that answer the browser. */
#ifndef PSGD_BROWSE_JOB_LIST_H
#define PSGD_BROWSE_JOB_LIST_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "submit/browse/shown.h"

enum { SHELF_ID = 64, SHELF_GROWN = 256 };

struct shelf_job {
    char id[SHELF_ID];
    char *folder; /* of its results, or, while it is only on agents, of copies of its files; NULL: none */
    char *run;    /* of a job on agents: its run.json so far, as text; NULL: that of the folder */
    json_t *line; /* of the list */
    bool can_cancel;
    uint64_t rows;    /* of a job that runs: about how many its nodes have recorded */
    uint64_t version; /* the shelf's: that of its line's last change */
};

/* Frees the array, and each job's strings and line. */
void shelf_jobs_free(struct shelf_job *jobs, size_t n);

struct shelf;
struct shelf *shelf_new(void); /* NULL: no memory */
void shelf_free(struct shelf *s);

/* These are for the main thread. Replaces the jobs (newest first) and agents, and takes ownership of both;
 * wakes the threads that wait for a change. */
void shelf_put(struct shelf *s, struct shelf_job *jobs, size_t n, json_t *agents);
/* Takes a wish of the other threads: the id of a job whose files are to be fetched anew, or that is to be
 * cancelled; false: there is none. Each is then answered with shelf_done; `e`: why it failed; code 0: it is
 * done. */
enum shelf_wish { SHELF_FETCH, SHELF_CANCEL };
bool shelf_take_wish(struct shelf *s, enum shelf_wish *what, char id[SHELF_ID]);
void shelf_done(struct shelf *s, enum shelf_wish what, const char *id, const struct err *e);
/* All waiting ends, now and later. */
void shelf_close(struct shelf *s);

/* These are for the other threads. The document of the list; the caller frees it. NULL: no memory. */
char *shelf_list(struct shelf *s);
/* Opens a job, and sets *line, which the caller owns. The files of a job on agents are fetched anew first, as
 * far as that takes at most 3 s. ERR_NOT_FOUND: there is no such job. */
int shelf_open(struct shown *out, json_t **line, struct shelf *s, const char *id, struct err *e);
/* Cancels a job, and waits for the agents. ERR_CONFLICT: it has ended, or is not on an agent. */
int shelf_cancel(struct shelf *s, const char *id, struct err *e);

/* How far a reader of the events has come; {0}: it has seen none. The event `jobs` has the whole list,
 * `changed` the jobs that have changed, and the agents, `grown` {"id", "rows"}. Writes the next events of the
 * stream, or nothing within `timeout_s`. -1: the shelf is closed. */
struct shelf_reader {
    uint64_t list, grown;
};
int shelf_events(FILE *out, struct shelf *s, struct shelf_reader *r, double timeout_s);

#endif
