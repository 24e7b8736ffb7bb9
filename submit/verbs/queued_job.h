/* queued_job -- a job of the queue (docs/queue.md): written by a command with --detach, run by a process of
 * its own that the queue watcher starts, and followed by other commands. */
#ifndef PSGD_SUBMIT_QUEUED_JOB_H
#define PSGD_SUBMIT_QUEUED_JOB_H

#include "submit/job/submission.h"

/* Checks the job that the options describe, writes it into the queue, sees to it that the queue is watched,
 * and prints the id. Asks no agent. */
int queued_job_submit(const struct options *o, struct err *e);

/* For status and why: prints where the job waits and for what. Returns 0, or an error. */
int queued_job_show(const struct options *o, const struct submission *s, struct err *e);
/* If the job is in the queue, shows its progress until it has left it, and its results. *is_shown: nothing is
 * left to do, and the exit status is returned. Otherwise returns 0, or an error. */
int queued_job_wait(bool *is_shown, const struct options *o, const char *id, struct err *e);
/* The exit status of a job that has ended; says why one has not run. */
int queued_job_end(const struct submission *s);
/* Has a job that has not been started cancelled, and waits until it has left the queue. *is_done: it was not
 * started, and the end is in the index; otherwise its nodes have to be cancelled. ERR_TIMEOUT. */
int queued_job_cancel(bool *is_done, const struct options *o, const char *id, struct err *e);

/* The process of a job: runs it on the agents that the watcher has chosen, or follows it if it was started
 * before. Returns its exit status (queue/queue_process.h). */
int queued_job_run(const char *id, struct err *e);

#endif
