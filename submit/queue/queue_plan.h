/* queue_plan -- which of a user's waiting jobs starts next, and on which agents. No I/O, no clock.
 *
 * The jobs are tried in their order. A job starts if as many of its listed agents are free as it has nodes;
 * otherwise the next job may start before it (backfill). A job that is `kept` starts before all jobs after
 * it: these get none of the agents in its list. docs/queue.md says when a job is kept. */
#ifndef PSGD_SUBMIT_QUEUE_PLAN_H
#define PSGD_SUBMIT_QUEUE_PLAN_H

#include <stdbool.h>
#include <stddef.h>

struct plan_agent {
    bool is_usable; /* it answers, and takes jobs */
    int n_free;     /* slots that a job may take now */
    int keeper;     /* number of the kept job that alone may take them; -1: none. Set by queue_plan_next() */
};

struct plan_job {
    const size_t *agents; /* (n_listed, then n_servers) indices of the listed workers, and of all servers */
    size_t n_listed, n_servers;
    size_t n_workers; /* that it needs of the listed ones */
    bool is_waiting;  /* otherwise it is not considered */
    bool is_possible; /* it could start if all usable agents were free; not read here */
    bool is_kept;
};

/* Returns the number of the job that starts now and sets chosen[0 .. n_workers + n_servers) to the indices of
 * its agents, the workers' first; -1: none can start. `chosen` has room for the largest job. */
int queue_plan_next(size_t *chosen, const struct plan_job *jobs, size_t n_jobs, struct plan_agent *agents,
                    size_t n_agents);
/* Whether the job could start if all usable agents were free. */
bool queue_plan_is_possible(const struct plan_job *j, const struct plan_agent *agents);

#endif
