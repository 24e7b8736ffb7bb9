/* helper_program -- runs a program beside this one that computes for it, in a process of its own: job_submit
 * links no BLAS and runs no codec. The program gets a folder with its packages as first argument, and leaves
 * its result there (shared/base/helper_summary.h). */
#ifndef PSGD_SUBMIT_HELPER_PROGRAM_H
#define PSGD_SUBMIT_HELPER_PROGRAM_H

#include <jansson.h>
#include <stdbool.h>

#include "shared/base/err.h"

enum { HELPER_ARGS = 4 };

struct helper {
    const char *program; /* its name */
    char *folder;
    char *args[HELPER_ARGS]; /* further arguments; NULL: there are fewer */
    const char *cwd;         /* NULL: this process' */
    const char *codec;       /* whose code it runs; NULL: none */
    double deadline;         /* clock_now; 0: none */
    double timeout_s;        /* of --timeout, for its message */
};

/* *out: the summary; the caller owns it. ERR_CANCELLED, ERR_TIMEOUT; ERR_CODEC or ERR_INTERNAL: it has
 * crashed, or ended without a summary; or the failure that it reports. */
int helper_run(json_t **out, const struct helper *h, struct err *e);

#endif
