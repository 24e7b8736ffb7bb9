/* retention -- which ended jobs an agent keeps: within the limits of --keep, --keep-days and --keep-gib. The
 * job that ended first is removed first; a job that has not ended stays.
 *
 * A removed job leaves a tombstone with the reason, and a request for the job is answered with 410 and that
 * reason. The latest TOMBSTONES_MAX are kept, in forgotten.json in the agent's folder. */
#ifndef PSGD_RETENTION_H
#define PSGD_RETENTION_H

#include "agent/jobs/jobs.h"
#include "shared/base/clock.h"

enum { TOMBSTONES_MAX = 256, TOMBSTONE_WHY_MAX = 160 };

struct tombstone {
    char id[JOB_ID_MAX + 1];
    char key_sha256[SHA256_HEX]; /* as in struct job */
    char at[CLOCK_TEXT];         /* the time, as clock_text writes it */
    char why[TOMBSTONE_WHY_MAX]; /* "deleted by owner" */
};

/* Reads the tombstones; a missing file is an empty list. ERR_CONFIG: the file is damaged, and the list has
 * the tombstones before the damage. ERR_IO, ERR_NOMEM. */
int retention_open(struct jobs *jobs, struct err *e);
void retention_close(struct jobs *jobs);

/* The tombstone of a removed job; NULL: there is none. */
const struct tombstone *retention_tombstone(const struct jobs *jobs, const char *id);

/* Removes an ended job from memory and, durably, from the disk; `why` is for its tombstone. ERR_IO: the job
 * is still there. */
int retention_remove(struct task *t, const char *why, struct err *e);

/* Removes the ended jobs beyond the limits. Call in every turn of the loop: it costs little if there are
 * none. */
void retention_trim(struct jobs *jobs);

#endif
