/* job_action -- the effects of a job's states: slots, runners, leases and limits. job_advance may be called
 * at any time and does what is due and not done yet; calling it after a restart resumes the job. */
#ifndef PSGD_JOB_ACTION_H
#define PSGD_JOB_ACTION_H

#include "agent/jobs/jobs.h"

/* Ends every attempt of a job of which a later attempt is reserved, and kills its runner. */
void job_supersede(struct jobs *jobs);

/* The use of this agent by a user (turns.h) until `now`, with that of jobs that have not ended; `jobs`:
 * struct jobs. Uses are compared at one time only: they decay. */
double jobs_used_by(const void *jobs, const char *user, double now);
/* Whether the claim, without its use, may take a free slot now. Otherwise `why` has the reason. */
bool job_may_take_slot(const struct jobs *jobs, const struct turn_claim *c, char *why, size_t size);
/* The job in the agent's queue that gets the next free slot; NULL: none may take one now. */
struct task *job_next_pending(const struct jobs *jobs);
/* Assigns free slots to pending jobs; none while the agent is draining. An attempt waits until all earlier
 * ones of its job have ended. */
void job_schedule(struct jobs *jobs);

/* An agent that is draining takes no new jobs: jobs that run go on, and jobs in the queue stay there. Users
 * drain an agent before they restart its machine, so the state survives a restart: the agent's folder has the
 * file `draining`.
 *
 * Sets jobs->is_draining from the folder. ERR_IO. */
int job_read_draining(struct jobs *jobs, struct err *e);
/* Drains or resumes; no effect if it is so already. Durable when this returns 0. ERR_IO, ERR_NOSPACE: nothing
 * has changed. */
int job_set_draining(struct jobs *jobs, bool is_draining, struct err *e);

/* Starts the runner of a job that has a slot and all its packages. */
void job_advance(struct task *t);

/* Sends the start document to the runner and moves the job to `running`. `digest` identifies the document.
 * ERR_CONFLICT: the job is not ready, or its runner has just ended; otherwise the job is stopped. */
int job_start(struct task *t, const char *line, const char *digest, struct err *e);

/* Renews the lease: the submitter has sent a request. */
void job_touch(struct task *t);
/* Begins the lease of a new reservation: a short one, as its submitter may have ended before it got the
 * answer. */
void job_reserved(struct task *t);
/* A stream of the job's events was opened or closed. The lease does not expire while one is open. */
void job_stream_opened(struct task *t);
void job_stream_closed(struct task *t);

/* Call after the journals were read (task_read_all): resumes the jobs that have not ended. A started job:
 * adopts its runner. No runner yet: keeps the reservation. A runner that was never started: ends the job.
 * From then on a slot that gets free is assigned. */
void job_restore_all(struct jobs *jobs);

#endif
