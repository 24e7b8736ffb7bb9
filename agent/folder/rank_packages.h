/* rank_packages -- a node's packages, from the job folder, and the checkpoints of its earlier attempts, from
 * which a later one goes on. */
#ifndef PSGD_RANK_PACKAGES_H
#define PSGD_RANK_PACKAGES_H

#include "agent/folder/meeting.h"
#include "agent/jobs/jobs.h"

/* Sets points and n_points of the member: those of all attempts of the job that the node has. */
void rank_checkpoints_list(struct meeting_member *out, const struct jobs *jobs, const char *job);

/* Gives the node's packages, `packages` of its entry in job.json, to the job, whose runner then starts.
 * `resume`: the point from which it goes on; NULL: it starts as it was packed. ERR_CONFIG, ERR_IO,
 * ERR_NOT_FOUND: a file is missing; ERR_CODEC, ERR_TRAINER. */
int rank_packages_take(struct task *t, const char *job_folder, const json_t *packages,
                       const struct meeting_point *resume, struct err *e);

#endif
