/* job_action -- the actions of a job's states. job_advance may be called at any time and does what is due
 * and not done yet; calling it after a restart resumes the job. */
#ifndef PSGD_JOB_ACTION_H
#define PSGD_JOB_ACTION_H

#include "agent/agent.h"

/* A reservation is a fence: kills the runners of all attempts of which a later one is reserved. */
void job_supersede(struct agent *a);

/* Assigns free slots to the jobs that have waited longest; none while the agent is draining. An attempt waits
 * until all earlier ones of its job have ended. */
void job_schedule(struct agent *a);

/* Tells the jobs that wait why they do, after is_draining has changed. */
void job_requeue(struct agent *a);

/* Starts the runner of a job that has a slot and all its packages. */
void job_advance(struct task *t);

/* doCommit: sends the document to the runner and moves to `running`. `digest` identifies it, `nodes` is
 * shown. */
int job_start(struct task *t, const char *line, const char *digest, json_t *nodes, struct err *e);

/* Moves to a non-terminal state; on failure the job is stopped. */
void job_enter(struct task *t, enum job_state s, const char *reason, const char *message);

/* Records the last event and releases everything; the slot is assigned to the next job. The runner must
 * have ended. */
void job_finish(struct task *t, enum job_state s, const char *reason, const char *message);

/* Returns the terminal state of a job that was stopped for this reason. */
enum job_state job_end_for(const char *reason);

/* Ends a job that has not ended: at once if it has no runner, else by SIGTERM and after grace_s SIGKILL.
 * `reason` decides whether it counts as failed or cancelled. */
void job_stop(struct task *t, const char *reason, const char *message, double grace_s);

/* Kills the runner at `kill_at` (clock_now), or earlier if an earlier time is set. */
void job_kill_by(struct task *t, double kill_at);

/* The submitter sent a request; a stream of the job's events was opened or closed. */
void job_touch(struct task *t);
/* The reservation was made: the lease is short until its submitter asks again, as it may have died since. */
void job_reserved(struct task *t);
void job_stream_opened(struct task *t);
void job_stream_closed(struct task *t);

/* Call after the journal was read: adopts the runner of a started job, keeps the reservation of a job
 * without a runner for job_schedule, and ends a job between the two. */
void job_restore(struct task *t);

/* Releases everything but the journal; signals no process. */
void job_release(struct task *t);

#endif
