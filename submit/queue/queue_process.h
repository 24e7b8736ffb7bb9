/* queue_process -- starts the processes of the queue: the watcher, one for each user, and one for each job
 * that it starts. None of them belongs to a terminal, and each continues if another one is killed. */
#ifndef PSGD_SUBMIT_QUEUE_PROCESS_H
#define PSGD_SUBMIT_QUEUE_PROCESS_H

#include <sys/types.h>

#include "shared/base/err.h"

/* The process of a job writes this byte to descriptor 3 when its nodes are reserved: from then on the agents
 * count them. */
enum { QUEUE_PLACED = 'p', QUEUE_PROCESS_FD = 3 };

/* Its exit statuses: the job has ended and left the queue, or it waits again. */
enum { QUEUE_JOB_ENDED = 0, QUEUE_JOB_WAITS = 75 };

/* If there are jobs in the queue and no process watches them, starts one. Returns 1 if it did, 0 if nothing
 * was to do, or ERR_IO, ERR_CONFIG. */
int queue_process_watch(struct err *e);
/* Starts the process of a job. *fd: becomes readable when it has written, and at its end. ERR_IO: *pid is 0,
 * and *fd -1. */
int queue_process_run(pid_t *pid, int *fd, const char *id, struct err *e);

#endif
