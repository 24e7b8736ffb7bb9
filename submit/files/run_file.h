/* run_file -- run.json, the description of a job in its result folder, which anybody may have written. */
#ifndef PSGD_SUBMIT_RUN_FILE_H
#define PSGD_SUBMIT_RUN_FILE_H

#include <jansson.h>

#include "shared/base/err.h"

enum { RUN_JSON_MAX = 64 << 20 };

/* Reads run.json of a result folder. ERR_NOT_FOUND: there is none. ERR_CONFIG: it is not JSON, or its id has
 * not the form of a job's. */
int run_file_read(json_t **out, const char *folder, struct err *e);
/* Replaces run.json atomically. ERR_NOMEM: also if `doc` is NULL. */
int run_file_save(const json_t *doc, const char *folder, struct err *e);

#endif
