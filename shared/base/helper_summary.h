/* helper_summary -- the result of a program that job_submit starts to compute for it (simulator, predictor):
 * summary.json in a folder of its own, {"ok": true, ...} or {"ok": false, "code", "text", "hint"}. */
#ifndef PSGD_HELPER_SUMMARY_H
#define PSGD_HELPER_SUMMARY_H

#include <jansson.h>

#include "shared/base/err.h"

/* Takes ownership of `doc`; NULL: ERR_NOMEM. */
int helper_summary_write(json_t *take_doc, const char *folder, struct err *e);
/* The document of a failure. NULL: no memory. */
json_t *helper_summary_failure(const struct err *failure);

/* *out: the document, which the caller owns; not after an error. ERR_NOT_FOUND: there is none. ERR_CODEC: it
 * is malformed, which only a codec's code in that program could cause. A failure in it is returned as such.
 * `program`: its name, for messages. */
int helper_summary_read(json_t **out, const char *folder, const char *program, struct err *e);

#endif
