/* tombstones -- the jobs that an agent no longer has, and why: a request for one is answered with 410 and the
 * reason. The latest FORGOTTEN_MAX are kept, in forgotten.json in its folder. */
#ifndef PSGD_FORGOTTEN_H
#define PSGD_FORGOTTEN_H

#include <stddef.h>

#include "agent/jobs/event.h"
#include "shared/base/clock.h"

enum { FORGOTTEN_MAX = 256, FORGOTTEN_WHY_MAX = 160 };

struct forgotten {
    char id[JOB_ID_MAX + 1];
    char key_sha256[SHA256_HEX]; /* as in struct job */
    char at[CLOCK_TEXT];         /* the time, as clock_text writes it */
    char why[FORGOTTEN_WHY_MAX]; /* "deleted by owner" */
};

struct forgotten_list {
    struct forgotten *items; /* (n, of FORGOTTEN_MAX) the oldest first; owned */
    size_t n;
};

/* A missing file is an empty list. ERR_CONFIG: the file is damaged, and the list has the jobs before the
 * damage. ERR_IO, ERR_NOMEM. */
int forgotten_load(struct forgotten_list *l, const char *dir, struct err *e);
void forgotten_clear(struct forgotten_list *l);

/* Adds the job, or replaces what the list has of it, on disk when this returns. ERR_IO, ERR_NOSPACE,
 * ERR_NOMEM: it is on the list only until the agent ends. */
int forgotten_add(struct forgotten_list *l, const char *dir, const struct job_spec *job,
                  const char *key_sha256, const char *why, struct err *e);

/* NULL: it is not on the list. */
const struct forgotten *forgotten_find(const struct forgotten_list *l, const char *id);

#endif
