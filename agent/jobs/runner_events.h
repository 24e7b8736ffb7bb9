/* runner_events -- makes events of the job from a runner's events.jsonl and from its exit. */
#ifndef PSGD_RUNNER_EVENTS_H
#define PSGD_RUNNER_EVENTS_H

#include "agent/jobs/jobs.h"

/* Opens the events file and lets the loop watch for new lines and for the runner's end. */
int runner_events_start(struct task *t, struct err *e);

/* Records the lines that are in the file, up to TAIL_TURN_BYTES; the rest waits for the next turn. */
void runner_events_read(struct task *t);

/* Call every second: reads on; if a line could not be recorded before, reads from the beginning and skips the
 * lines that the journal has. */
void runner_events_again(struct task *t);

/* At the agent's start, before it serves requests: records all lines of a runner that has ended. */
void runner_events_past(struct task *t);

/* Call when the runner has ended: records the job's last event, by the runner's end event or, without one, by
 * `reason` and by `how` the process ended. */
void runner_events_conclude(struct task *t, const char *reason, const char *how);

#endif
