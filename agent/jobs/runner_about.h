/* runner_about -- what this agent's job_runner states about itself: the agent asks once, when it starts, with
 * `job_runner --isolation`. The answer is how far it can isolate a codec on this machine, what it computes
 * with, and which plug-ins and peers it understands, as only the runner links OpenBLAS. A runner that cannot
 * start, because a library is missing, is noticed before the first job. */
#ifndef PSGD_RUNNER_ABOUT_H
#define PSGD_RUNNER_ABOUT_H

#include <jansson.h>

#include "agent/access/codec_policy.h"

struct runner_about {
    json_t *facts;     /* NULL: it has stated none */
    struct err broken; /* why it has not answered; code 0: it has */
};

/* Waits for the answer; a runner that cannot answer isolates nothing, and the reason is in `broken`.
 * `required`: the level of --require-isolation; -1: not given. ERR_AUTH: the runner's level is below it. */
int runner_about_ask(struct runner_about *r, struct agent_isolation *out, char *runner_exe, int required,
                     struct err *e);
void runner_about_clear(struct runner_about *r); /* {0} is allowed */
/* {"engine","codec_abi","frame_version"}, {"error"}, or null if it has stated none. */
json_t *runner_about_json(const struct runner_about *r);

#endif
