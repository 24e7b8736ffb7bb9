/* run_file -- run.json, which describes the job of a folder of results: read from a folder that anybody may
 * have written, and replaced. */
#ifndef PSGD_SUBMIT_RUN_FILE_H
#define PSGD_SUBMIT_RUN_FILE_H

#include <jansson.h>

#include "shared/base/err.h"

enum { RUN_JSON_MAX = 64 << 20 };

/* *out: the run.json of a folder of results. ERR_NOT_FOUND: there is none. ERR_CONFIG: not JSON, or its id is
 * not that of a job. */
int run_file_read(json_t **out, const char *folder, struct err *e);
/* Replaces it as a whole. A `doc` of NULL is ERR_NOMEM. */
int run_file_save(const json_t *doc, const char *folder, struct err *e);

#endif
