/* runner_about -- what this agent's job_runner states about itself, asked when the agent starts: with
 * `job_runner --about` what it computes with, and which plug-ins and peers it understands, as only the runner
 * links OpenBLAS; with `job_runner --isolation` how far it can isolate a codec on this machine. A runner that
 * cannot start, because a library is missing, is noticed before the first job. */
#ifndef PSGD_RUNNER_ABOUT_H
#define PSGD_RUNNER_ABOUT_H

#include <jansson.h>

#include "agent/access/codec_policy.h"
#include "shared/base/child.h"
#include "shared/base/loop.h"

struct runner_about {
    struct loop *loop;
    struct child child;
    struct watch watch;
    int out;           /* the runner's stdout */
    json_t *facts;     /* NULL: not answered yet, or it failed */
    struct err broken; /* why it failed; code 0: it has not */
};

/* Starts the runner and does not wait for it. A failure is in `broken`. */
void runner_about_ask(struct runner_about *r, struct loop *l, char *runner_exe);
void runner_about_clear(struct runner_about *r); /* ends a runner that has not answered; {0} is allowed */
/* {"engine","codec_abi","frame_version"}, {"error"}, or null while it has not answered. */
json_t *runner_about_json(const struct runner_about *r);

/* Waits for the answer about isolation; a runner that cannot answer isolates nothing. `required`: the level
 * of --require-isolation; -1: not given. ERR_AUTH: the runner's level is below it. */
int runner_about_isolation(struct agent_isolation *out, char *runner_exe, int required, struct err *e);

#endif
