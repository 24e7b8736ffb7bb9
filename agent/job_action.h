/* job_action -- what a job's state makes happen. job_advance may be called at any time: it does what is due
 * and not done yet, so calling it again after a restart is the restart. */
#ifndef PSGD_JOB_ACTION_H
#define PSGD_JOB_ACTION_H

#include "agent/agent.h"

/* Gives free slots to the jobs that wait longest. */
void job_schedule(struct agent *a);

/* Starts the runner of a job that has a slot and all its packages. */
void job_advance(struct task *t);

/* doCommit: passes the document on and moves to `running`. `digest` names it, `nodes` is shown. */
int job_start(struct task *t, const char *line, const char *digest, json_t *nodes, struct err *e);

/* Moves to a state that is not the last; where that fails the job is stopped. */
void job_enter(struct task *t, enum job_state s, const char *reason, const char *message);

/* The last event: lets go of everything, and the slot goes to the next job. The runner must be gone. */
void job_finish(struct task *t, enum job_state s, const char *reason, const char *message);

/* What a job ends as that was stopped for this reason. */
enum job_state job_end_for(const char *reason);

/* Ends a job that has not ended: at once when it has no runner, else by SIGTERM and after grace_s SIGKILL.
 * `reason` decides whether it counts as failed or cancelled. */
void job_stop(struct task *t, const char *reason, const char *message, double grace_s);

/* The runner is killed at `kill_at` (clock_now), or before, where that was said earlier. */
void job_kill_by(struct task *t, double kill_at);

/* A sign of life of the submitter; a stream of the job's events opened or closed. */
void job_touch(struct task *t);
void job_stream_opened(struct task *t);
void job_stream_closed(struct task *t);

/* After its journal was read: adopts the runner of a job that was started, keeps the reservation of one that
 * has no runner yet, for job_schedule, and ends one between the two. */
void job_restore(struct task *t);

/* Lets go of everything but the journal; touches no process. */
void job_release(struct task *t);

#endif
