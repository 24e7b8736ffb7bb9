#include "shared/job/job_state.h"

#include <string.h>

#define TO(s) (1u << (s))

static const struct {
    const char *name;
    unsigned next; /* the states that may follow; none: terminal */
} table[N_JOB_STATES] = {
    [JOB_PENDING] = {"pending", TO(JOB_PREPARING) | TO(JOB_FAILED) | TO(JOB_CANCELLED)},
    [JOB_PREPARING] = {"preparing", TO(JOB_READY) | TO(JOB_STOPPING) | TO(JOB_FAILED) | TO(JOB_CANCELLED)},
    [JOB_READY] = {"ready", TO(JOB_RUNNING) | TO(JOB_STOPPING) | TO(JOB_FAILED) | TO(JOB_CANCELLED)},
    [JOB_RUNNING] = {"running", TO(JOB_STOPPING) | TO(JOB_SUCCEEDED) | TO(JOB_FAILED) | TO(JOB_CANCELLED)},
    [JOB_STOPPING] = {"stopping", TO(JOB_SUCCEEDED) | TO(JOB_FAILED) | TO(JOB_CANCELLED)},
    [JOB_SUCCEEDED] = {"succeeded", 0},
    [JOB_FAILED] = {"failed", 0},
    [JOB_CANCELLED] = {"cancelled", 0},
};

const char *job_state_name(enum job_state s)
{
    return table[s].name;
}

bool job_state_parse(enum job_state *out, const char *name)
{
    for (int s = 0; s < N_JOB_STATES; s++)
        if (strcmp(table[s].name, name) == 0) {
            *out = (enum job_state)s;
            return true;
        }
    return false;
}

bool job_state_is_terminal(enum job_state s)
{
    return table[s].next == 0;
}

bool job_state_may_follow(enum job_state from, enum job_state to)
{
    return table[from].next & TO(to);
}

/* A state is left for later ones only, so this ends. */
bool job_state_can_reach(enum job_state from, enum job_state to)
{
    if (job_state_may_follow(from, to))
        return true;
    for (int s = 0; s < N_JOB_STATES; s++)
        if (job_state_may_follow(from, (enum job_state)s) && job_state_can_reach((enum job_state)s, to))
            return true;
    return false;
}
