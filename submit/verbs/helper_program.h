/* helper_program -- runs a program that computes for job_submit, predictor or simulator, which are installed
 * beside it: job_submit links no BLAS and runs no codec. The first argument of the program is a folder with
 * its packages, into which it writes its result (shared/base/helper.h). */
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
    const char *codec;       /* name of the codec whose code it runs; NULL: none */
    double deadline;         /* clock_now; 0: none */
    double timeout_s;        /* of --timeout, for its message */
};

/* *out: the summary; the caller owns it. ERR_CANCELLED, ERR_TIMEOUT; ERR_CODEC (with a codec) or
 * ERR_INTERNAL: the program has crashed, or ended without a summary; or the error that it reports. */
int helper_run(json_t **out, const struct helper *h, struct err *e);

#endif
