/* job_state -- the states of a job on an agent, and which may follow which. */
#ifndef PSGD_JOB_STATE_H
#define PSGD_JOB_STATE_H

#include <stdbool.h>

enum job_state {
    JOB_PENDING,   /* queued: the agent runs another job */
    JOB_PREPARING, /* has the slot; receives packages, the runner loads them */
    JOB_READY,     /* waits for the other nodes */
    JOB_RUNNING,
    JOB_STOPPING, /* a stop was requested */
    JOB_SUCCEEDED,
    JOB_FAILED,
    JOB_CANCELLED,
    N_JOB_STATES
};

const char *job_state_name(enum job_state s);
bool job_state_parse(enum job_state *out, const char *name);
bool job_state_is_terminal(enum job_state s);
bool job_state_may_follow(enum job_state from, enum job_state to); /* as the next state */
/* Whether `to` may follow `from`, with any number of states between. */
bool job_state_can_reach(enum job_state from, enum job_state to);

#endif
