/* run_find -- the run that a command names: a folder of results, or a job's id or a unique prefix of it. */
#ifndef PSGD_SUBMIT_RUN_FIND_H
#define PSGD_SUBMIT_RUN_FIND_H

#include <jansson.h>
#include <limits.h>

#include "shared/base/err.h"

struct run {
    char folder[PATH_MAX]; /* absolute */
    json_t *doc;           /* its run.json */
};

/* A name that exists as a file is a folder; NULL is the latest job. ERR_NOT_FOUND: no such job, or its
 * results are not in its folder; ERR_USAGE: a prefix of several jobs; ERR_CONFIG: an invalid run.json. */
int run_find(struct run *r, const char *name, struct err *e);
/* All n of them, each once: a second name of a run found before is left out. *out: the runs, *n_out of them,
 * for runs_free(). */
int runs_find(struct run **out, size_t *n_out, const char *const *names, size_t n, struct err *e);

void run_clear(struct run *r);
void runs_free(struct run *runs, size_t n);

#endif
