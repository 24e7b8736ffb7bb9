/* slurm_job -- a job without agents that job_submit has submitted to Slurm: its folder has the number of
 * Slurm's job (submit/launch/slurm.h). */
#ifndef PSGD_SUBMIT_SLURM_JOB_H
#define PSGD_SUBMIT_SLURM_JOB_H

#include <stdbool.h>

#include "submit/options/submit_options.h"

/* submit --slurm: packs the job, submits it, and waits for it unless --detach. Returns an exit status, or an
 * error: of packing, or of slurm_submit(). */
int slurm_job_submit(const struct options *o, struct err *e);
/* Whether the folder was submitted to Slurm. */
bool slurm_job_is(const char *folder);
/* Follows the job until Slurm will not run it again, and collects its results. Returns an exit status, or an
 * error. */
int slurm_job_wait(const struct options *o, const char *folder, struct err *e);
/* *is_cancelled: the job waited in Slurm's queue, and is cancelled there. Otherwise it runs, or is over. */
int slurm_job_cancel_waiting(bool *is_cancelled, const char *folder, struct err *e);

#endif
