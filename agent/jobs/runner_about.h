/* runner_about -- what this agent's job_runner states about itself: what it computes with, and which plug-ins
 * and peers it understands, as only the runner links OpenBLAS. The agent starts `job_runner --about` when a
 * client asks, and keeps the answer: loading the libraries takes longer than all else of an agent's start. A
 * runner that cannot start, because a library is missing, is noticed so before the first job. */
#ifndef PSGD_RUNNER_ABOUT_H
#define PSGD_RUNNER_ABOUT_H

#include <jansson.h>

#include "agent/base/inquiry.h"

/* The caller sets the inquiry's loop and n_changes, and exe. */
struct runner_about {
    struct inquiry inquiry;
    char *exe;         /* job_runner's path */
    json_t *facts;     /* NULL: not asked, or it failed */
    struct err broken; /* why it failed; code 0: it has not */
};

/* Starts the process, unless the runner has answered, or has failed a moment ago, and does not wait for
 * it. */
void runner_about_ask(struct runner_about *r);
void runner_about_clear(struct runner_about *r); /* ends the process, if it runs; {0} is allowed */
/* {"engine","codec_abi","frame_version"}, {"error"}, or null if it was not asked. */
json_t *runner_about_json(const struct runner_about *r);

#endif
