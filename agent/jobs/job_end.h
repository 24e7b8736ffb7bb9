/* job_end -- how a job changes its state, is stopped and ends. Each change is in the journal before it is
 * reported, because a restart would forget it. */
#ifndef PSGD_JOB_END_H
#define PSGD_JOB_END_H

#include "agent/jobs/jobs.h"

static const double JOB_TICK_S = 1; /* how often a job's limits are checked, and its end is tried again */

/* Moves the job to a non-terminal state. ERR_CONFLICT: it cannot follow the present one; ERR_IO, ERR_NOSPACE:
 * it cannot be recorded. */
int job_move(struct task *t, enum job_state s, const char *reason, const char *message, struct err *e);

/* The same; on failure the job is stopped. */
void job_enter(struct task *t, enum job_state s, const char *reason, const char *message);
void job_enter_ready(struct task *t,
                     const char *data_key); /* with the public half of the runner's key, in hex */

/* Records the last event and releases everything; the slot is assigned to the next job (slot_freed). The
 * runner must have ended. */
void job_finish(struct task *t, enum job_state s, const char *reason, const char *message);

/* Returns the terminal state of a job that was stopped for this reason. */
enum job_state job_end_for(const char *reason);
/* Returns the reason for a job that ends because of this error of the agent. */
const char *job_reason_of(const struct err *e);

/* Ends a job that has not ended: at once if it has no runner, else by SIGTERM and after grace_s SIGKILL.
 * `reason` decides whether it counts as failed or cancelled. */
void job_stop(struct task *t, const char *reason, const char *message, double grace_s);
/* Notes why the job is being stopped; the first reason counts. */
void job_remember_stop(struct task *t, const char *reason, const char *message);

/* Kills the runner at `kill_at` (clock_now), or earlier if an earlier time is set. */
void job_kill_by(struct task *t, double kill_at);

#endif
