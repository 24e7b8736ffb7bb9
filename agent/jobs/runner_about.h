/* runner_about -- what this agent's job_runner computes with, and which plug-ins and peers it understands:
 * the line that `job_runner --about` prints. It is asked once, when the agent starts, as only the runner
 * links OpenBLAS; a runner that cannot start, because a library is missing, is noticed before the first
 * job. */
#ifndef PSGD_RUNNER_ABOUT_H
#define PSGD_RUNNER_ABOUT_H

#include <jansson.h>

#include "shared/base/child.h"
#include "shared/base/loop.h"

struct runner_about {
    struct loop *loop;
    struct child child;
    struct watch watch;
    int out;           /* the runner's stdout */
    json_t *facts;     /* NULL: not answered yet, or not at all */
    struct err broken; /* code 0: it has answered, or may still do so */
};

/* Starts the runner; it is not waited for. Failures are in `broken`. */
void runner_about_ask(struct runner_about *r, struct loop *l, char *runner_exe);
void runner_about_clear(struct runner_about *r); /* ends a runner that has not answered; {0} is allowed */
/* {"engine","codec_abi","frame_version"}, {"error"}, or null while it has not answered. */
json_t *runner_about_json(const struct runner_about *r);

#endif
