/* run_delete -- deletes the results of runs so that it can be undone: a folder DIR/NAME is moved to
 * DIR/.deleted/NAME, which no list looks into. The disk space is free when .deleted is removed. */
#ifndef PSGD_BROWSE_RUN_DELETE_H
#define PSGD_BROWSE_RUN_DELETE_H

#include <stddef.h>

#include "submit/results/run.h"

/* out: the path to which the folder was moved: .deleted/NAME, or .deleted/NAME~2, ... if a run of that name
 * was deleted before. ERR_CONFLICT: the job has not ended; ERR_IO. */
int run_delete(char *out, size_t size, const struct run *r, struct err *e);
/* Moves what was deleted last of this folder's name back. `id`: of this job only; NULL: of any.
 * ERR_NOT_FOUND: there is none; ERR_CONFLICT: the folder exists again; ERR_IO. */
int run_undelete(const char *folder, const char *id, struct err *e);

#endif
