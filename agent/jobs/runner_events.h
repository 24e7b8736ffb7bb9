/* runner_events -- turns a runner's events.jsonl and its exit into events of the job. */
#ifndef PSGD_RUNNER_EVENTS_H
#define PSGD_RUNNER_EVENTS_H

#include "agent/jobs/jobs.h"

/* Opens the events file; the loop then watches for new lines and for the runner's end. */
int runner_events_start(struct task *t, struct err *e);

/* Records the lines that are in the file; beyond a bounded number of bytes the rest waits for the next
 * turn. */
void runner_events_read(struct task *t);

/* Call every second: reads on, from the beginning if a line could not be recorded before, and skips what the
 * journal has. */
void runner_events_again(struct task *t);

/* At the agent's start, before it serves requests: records all lines of a runner that has ended. */
void runner_events_past(struct task *t);

/* The runner has ended: records the job's last event, from the runner's end event or else `reason` and
 * `how` it ended. */
void runner_events_conclude(struct task *t, const char *reason, const char *how);

#endif
