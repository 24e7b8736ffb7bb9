/* follow -- what a runner tells, in its events.jsonl and by its end, turned into events of the job. */
#ifndef PSGD_FOLLOW_H
#define PSGD_FOLLOW_H

#include "agent/agent.h"

/* Opens the file of its events and waits in the loop for lines and for its end. */
int follow_start(struct task *t, struct err *e);

/* Takes over the lines that are there; more than a bounded piece of them waits for the next turn. */
void follow_read(struct task *t);

/* At the agent's start, before it serves anybody: takes over all that a runner wrote which is gone. */
void follow_past(struct task *t);

/* The runner is gone: the last event, by its last word or else by `how` it ended. */
void follow_conclude(struct task *t, const char *how);

#endif
