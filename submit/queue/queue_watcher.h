/* queue_watcher -- the process that starts this user's waiting jobs, in their order, on agents that are free
 * (queue_plan.h). Each job that it starts has a process of its own (queue_process.h), which also survives the
 * watcher. It ends when the queue is empty. What it knows is in the queue's folder: killed at any time, it is
 * replaced by another one that goes on. */
#ifndef PSGD_SUBMIT_QUEUE_WATCHER_H
#define PSGD_SUBMIT_QUEUE_WATCHER_H

#include "shared/base/err.h"

/* Watches until the queue is empty, or a signal. ERR_CONFLICT: another process watches it; ERR_CANCELLED,
 * ERR_NOMEM, ERR_IO. */
int queue_watcher_run(struct err *e);

#endif
