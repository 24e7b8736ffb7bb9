#include "submit/queue/queue_plan.h"

static bool may_take(const struct plan_agent *a, int job)
{
    return a->is_usable && a->n_free > 0 && (a->keeper < 0 || a->keeper == job);
}

/* The first free workers of the list, and all servers. */
static bool choose_agents(size_t *chosen, const struct plan_job *j, int number,
                          const struct plan_agent *agents)
{
    size_t n = 0;

    for (size_t i = 0; i < j->n_listed && n < j->n_workers; i++)
        if (may_take(&agents[j->agents[i]], number))
            chosen[n++] = j->agents[i];
    if (n < j->n_workers)
        return false;
    for (size_t i = 0; i < j->n_servers; i++) {
        chosen[n] = j->agents[j->n_listed + i];
        if (!may_take(&agents[chosen[n++]], number))
            return false;
    }
    return true;
}

static void keep_agents(const struct plan_job *j, int number, struct plan_agent *agents)
{
    for (size_t i = 0; i < j->n_listed + j->n_servers; i++)
        if (agents[j->agents[i]].keeper < 0)
            agents[j->agents[i]].keeper = number;
}

int queue_plan_next(size_t *chosen, const struct plan_job *jobs, size_t n_jobs, struct plan_agent *agents,
                    size_t n_agents)
{
    for (size_t i = 0; i < n_agents; i++)
        agents[i].keeper = -1;
    for (size_t i = 0; i < n_jobs; i++) {
        if (!jobs[i].is_waiting)
            continue;
        if (choose_agents(chosen, &jobs[i], (int)i, agents))
            return (int)i;
        if (jobs[i].is_kept)
            keep_agents(&jobs[i], (int)i, agents);
    }
    return -1;
}

bool queue_plan_is_possible(const struct plan_job *j, const struct plan_agent *agents)
{
    size_t n = 0;

    for (size_t i = 0; i < j->n_listed; i++)
        n += agents[j->agents[i]].is_usable;
    for (size_t i = 0; i < j->n_servers; i++)
        if (!agents[j->agents[j->n_listed + i]].is_usable)
            return false;
    return n >= j->n_workers;
}
