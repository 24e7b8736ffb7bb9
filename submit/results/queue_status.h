/* queue_status -- what the queue watcher says of the waiting jobs: status.json in the queue's folder, written
 * when something has changed, for the commands that show the queue. */
#ifndef PSGD_SUBMIT_QUEUE_STATUS_H
#define PSGD_SUBMIT_QUEUE_STATUS_H

#include <jansson.h>
#include <stddef.h>

#include "shared/base/err.h"
#include "submit/job/submission.h"

struct queue_view {
    size_t place, n_waiting; /* place 1 is next; 0: the job does not wait */
    int priority;
    char why[720]; /* what it waits for, a clause; "": not known yet */
};

/* `o`: {"waiting":[{"id","why"},...]} in the order of the jobs. Nothing is written if it is as before. */
int queue_status_write(const json_t *o, struct err *e);

/* The state of the queue, read once for several jobs. */
struct queue_state {
    json_t *said;            /* owned; NULL: nothing is written yet */
    struct queued_job *jobs; /* (n) owned, as queue_folder_list() */
    size_t n;
    long watcher; /* its process; 0: none */
};
int queue_state_read(struct queue_state *s, struct err *e);
void queue_state_clear(struct queue_state *s);
/* Of a job that waits; others, and those that are not in the queue, have place 0. */
void queue_state_view(struct queue_view *out, const struct queue_state *s, const char *id);
/* Does the job, whose record `s` has, wait in the queue? */
bool queue_state_waits(const struct submission *s);
/* ERR_CONFLICT if it does: for verbs that need its nodes. */
int queue_state_refuse(const struct submission *s, struct err *e);
bool queue_state_has(const struct queue_state *s, const char *id); /* the watcher says that it waits */
size_t queue_state_count(const struct queue_state *s);             /* waiting jobs */

#endif
