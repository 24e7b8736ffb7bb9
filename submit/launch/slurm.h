/* slurm -- a job folder as a job of Slurm: its batch file, and the programs sbatch, squeue and scancel. */
#ifndef PSGD_SUBMIT_SLURM_H
#define PSGD_SUBMIT_SLURM_H

#include <stdbool.h>
#include <stddef.h>

#include "shared/base/err.h"

#define SLURM_SCRIPT "slurm.sh"   /* in the job folder: sbatch DIR/slurm.sh is the job's next attempt */
#define SLURM_OUTPUT "slurm.log"  /* what the processes of all attempts have printed */
#define SLURM_JOB    "slurm.json" /* {"job"}: the number of the job that has run it last, or does */

enum {
    SLURM_ID = 24,
    SLURM_SILENCE_S = 300 /* after so long without a word of the job's processes its batch file ends them */
};

struct slurm_state {
    bool is_over, runs;
    bool never_starts; /* it waits for a reason that stays until its options, or the cluster, are changed */
    char name[32],
        reason[64]; /* as squeue has them: "PENDING", "Resources"; "": Slurm does not know the job */
};

enum { SLURM_TEXT = 112 };
/* "RUNNING", "PENDING (Resources)", "over": the reason is that of a job that does not run. Returns `out`. */
const char *slurm_state_text(char out[SLURM_TEXT], const struct slurm_state *s);

/* *n: the number of processes that options of sbatch ask for; 0: they do not say. ERR_USAGE: a number that
 * is none, as in "-N 2-4", or more than the nodes of a job. */
int slurm_processes(int *n, const char *options, struct err *e);
/* Writes the batch file. `name`: of the job; `options`: of sbatch; `retries`: how often a failed
 * job is requeued. ERR_IO, ERR_NOSPACE, ERR_NOMEM. */
int slurm_write_script(const char *folder, const char *name, int n_processes, const char *options,
                       int retries, struct err *e);
/* Submits it; `id` is that of the job. ERR_NOT_FOUND: there is no sbatch; ERR_REFUSED: it refuses the job. */
int slurm_submit(char id[SLURM_ID], const char *folder, struct err *e);
/* ERR_NOT_FOUND: the folder was not submitted to Slurm. */
int slurm_read_id(char id[SLURM_ID], const char *folder, struct err *e);
/* The number of the job of Slurm that runs the folder's job; if none does, of the last one that waits in the
 * queue; else of the one that has run it last. Finds also those that a user has submitted by sbatch. */
int slurm_find_id(char id[SLURM_ID], const char *folder, struct err *e);
/* Cancels the folder's other jobs that wait or run: these would begin once `id` has ended. */
int slurm_cancel_others(const char *folder, const char *id, struct err *e);
/* ERR_UNREACHABLE: Slurm does not answer. */
int slurm_ask(struct slurm_state *out, const char *id, struct err *e);
int slurm_cancel(const char *id, struct err *e);
/* Within the grace time of a preemption, after the job's processes have ended: Slurm requeues only a job that
 * still runs when that time is over. *is_requeued: it was preempted. */
int slurm_requeue_preempted(bool *is_requeued, const char *id, struct err *e);

#endif
