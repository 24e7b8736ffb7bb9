/* drain -- an agent that is draining takes no new jobs: jobs that run go on, those in the queue stay there.
 * It is drained before its machine is restarted, so it stays drained across a restart, by the file `draining`
 * of its folder. */
#ifndef PSGD_DRAIN_H
#define PSGD_DRAIN_H

#include "agent/jobs/jobs.h"

/* Sets jobs->is_draining from the folder. ERR_IO. */
int drain_load(struct jobs *jobs, struct err *e);

/* Drains or resumes; the same again changes nothing. It is on the disk when this returns 0. ERR_IO,
 * ERR_NOSPACE: nothing has changed. */
int drain_set(struct jobs *jobs, bool is_draining, struct err *e);

#endif
