/* helper -- a program that another program of psgd starts, never a person: job_runner, predictor, simulator,
 * codec_check. What it answers a person, and the summary that the simulator and the predictor leave for
 * job_submit. */
#ifndef PSGD_HELPER_H
#define PSGD_HELPER_H

#include <jansson.h>

#include "shared/base/err.h"

/* main() of a helper that a person has started: prints the answer to --version and --help, and an error for
 * any other command line. `starter`: the program that starts it, as "job_submit predict". Returns the exit
 * status. */
int helper_main(int argc, char **argv, const char *name, const char *starter);

/* Writes summary.json into the helper's folder: {"ok": true, ...}, or helper_summary_failure(). Takes
 * ownership of `doc`; NULL: ERR_NOMEM. ERR_IO, ERR_NOSPACE. */
int helper_summary_write(json_t *take_doc, const char *folder, struct err *e);
/* Returns the summary of a failure, {"ok": false, "code", "text", "hint"}. NULL: no memory. */
json_t *helper_summary_failure(const struct err *failure);

/* *out: the summary, which the caller owns. A summary of a failure makes this function fail with the same
 * code, text and hint. ERR_NOT_FOUND: the helper has written none. ERR_CODEC: it is malformed, which only a
 * codec's code in that program can cause. `program`: the helper's name, for messages. */
int helper_summary_read(json_t **out, const char *folder, const char *program, struct err *e);

#endif
