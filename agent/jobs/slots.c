#include "agent/jobs/slots.h"

#include <stdlib.h>

int slots_free(const struct jobs *jobs)
{
    /* Jobs that an agent with more slots has left may have a higher slot. */
    if (task_count(jobs, job_is_active) >= (size_t)jobs->opt->slots)
        return -1;
    for (int slot = 0; slot < jobs->opt->slots; slot++) {
        bool is_free = true;

        for (const struct task *t = jobs->first; t; t = t->next)
            is_free &= !job_is_active(&t->job) || t->job.slot != slot;
        if (is_free)
            return slot;
    }
    return -1;
}

bool slots_processors(cpu_set_t *out, const struct jobs *jobs, int slot)
{
    int n_slots = jobs->opt->slots, n, from, to, seen = 0;
    cpu_set_t all;

    CPU_ZERO(out);
    if (n_slots == 1 || sched_getaffinity(0, sizeof all, &all) < 0)
        return false;
    n = CPU_COUNT(&all);
    from = n >= n_slots ? slot * n / n_slots : slot % n;
    to = n >= n_slots ? (slot + 1) * n / n_slots : from + 1;
    for (size_t cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, &all))
            continue;
        if (seen >= from && seen < to)
            CPU_SET(cpu, out);
        seen++;
    }
    return true;
}

uint64_t slots_memory(const struct jobs *jobs)
{
    return jobs->job_memory / (uint64_t)jobs->opt->slots;
}
