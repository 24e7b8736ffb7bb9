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
/* Cancels the job in Slurm unless one of its processes, `has_process`, reads the cancellation in the job
 * folder: it waits in the queue, or its processes have not started yet; one that Slurm may be about to
 * requeue is cancelled as well. *is_cancelled: no process of it is left to be waited for. ERR_NOT_FOUND,
 * ERR_UNREACHABLE: Slurm cannot be asked; ERR_REFUSED: it refuses. */
int slurm_job_cancel(bool *is_cancelled, const char *folder, bool has_process, struct err *e);

#endif
