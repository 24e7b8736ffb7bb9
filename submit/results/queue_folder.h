/* queue_folder -- the jobs of this user that wait for agents, and those that the queue watcher has started:
 * the folder $XDG_STATE_HOME/psgd/queue (docs/queue.md).
 *
 *   watcher          locked by the queue watcher while it runs; has its process number
 *   bell             written to wake the watcher
 *   packages/SHA256  the files of all jobs' packages, to which the jobs' folders have hard links
 *   new-ID/          a job that is being written
 *     writing        locked by the process that writes it
 *   ID/              a job, in the form of a job folder (shared/job/job_folder.h). It is in the queue
 *                    once its folder has this name, and until its job.json is removed
 *     place.json     its place among the jobs of this user
 *     attempt.json   {"attempt":N,"nodes":["host:port",...]}: the last reservation, and its agents
 *     lock           locked by the process that runs the job
 *     cancel.json    {"reason"}: the job is to be cancelled
 *     log            messages of the process that runs the job
 *
 * Each file is replaced as a whole and synced. */
#ifndef PSGD_SUBMIT_QUEUE_FOLDER_H
#define PSGD_SUBMIT_QUEUE_FOLDER_H

#include <jansson.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shared/base/err.h"
#include "submit/files/job_id.h"

enum { QUEUE_DOCUMENT_MAX = 64 << 20, QUEUE_PRIORITY_MAX = 100 };

#define QUEUE_WATCHER  "watcher"
#define QUEUE_BELL     "bell"
#define QUEUE_PACKAGES "packages"
#define QUEUE_NEW      "new-"
#define QUEUE_ATTEMPT  "attempt.json"
#define QUEUE_CANCEL   "cancel.json"
#define QUEUE_LOG      "log"
#define QUEUE_WRITING  "writing"

/* The order of a user's jobs: by descending priority, then by ascending number. */
struct queue_place {
    int priority;  /* -QUEUE_PRIORITY_MAX to QUEUE_PRIORITY_MAX */
    double number; /* when it was submitted, clock_wall(), unless it was moved */
};

struct queued_job {
    char id[JOB_ID_MAX];
    struct queue_place place;
};

/* The path of a file of the queue; of one of its jobs if `id` is not NULL. `name` NULL: of the folder. */
int queue_folder_path(char out[PATH_MAX], const char *id, const char *name, struct err *e);
/* Creates the folder of the queue, readable by this user only. ERR_IO. */
int queue_folder_make(struct err *e);

/* All jobs of the queue, in their order; the caller frees the list. No folder: none. ERR_NOMEM. */
int queue_folder_list(struct queued_job **out, size_t *n, struct err *e);
bool queue_folder_has(const char *id);
int queue_folder_set_place(const char *id, const struct queue_place *p, struct err *e);

/* A document of a job; NULL: there is none, or it cannot be read. */
json_t *queue_folder_get(const char *id, const char *name);
int queue_folder_put(const char *id, const char *name, const json_t *o, struct err *e);

/* Locks a file of the queue, or of a job, and returns its descriptor. ERR_CONFLICT: another process has the
 * lock; ERR_NOT_FOUND: the folder is not there; ERR_IO. */
int queue_folder_lock(const char *id, const char *name, struct err *e);
/* The process that holds the watcher's lock; 0: none. */
long queue_folder_watcher(void);

/* Bytes of the files in packages/. */
uint64_t queue_folder_bytes(void);
/* Removes the job, or one that is being written, and the files that no other job needs. The caller has its
 * lock, or has written it. */
int queue_folder_remove(const char *id, struct err *e);
/* Removes folders and records of jobs whose writing was interrupted, and files in packages/ that no job
 * needs. */
void queue_folder_sweep(void);
/* Has the watcher cancel a job that waits. ERR_IO. */
int queue_folder_cancel(const char *id, const char *reason, struct err *e);
/* Wakes the watcher. */
void queue_folder_ring(void);

#endif
