/* launch_rank -- which process of a launcher this is, and of how many: by the variables that the launcher
 * sets in each process, or by options. */
#ifndef PSGD_LAUNCH_RANK_H
#define PSGD_LAUNCH_RANK_H

#include <stdbool.h>
#include <stddef.h>

#include "shared/base/err.h"

struct launch_rank {
    int rank;           /* from 0 */
    int size;           /* -1: the launcher does not say */
    const char *origin; /* "--rank", "OMPI_COMM_WORLD_RANK" */
};

/* `n_nodes`: of the job, 0: not known yet; the process of a job of one node needs no number. `rank`, `size`:
 * of the command line, -1: not given. `get`: getenv(). ERR_CONFIG: nothing says which process this is, two
 * launchers say different things, or a variable is no number; the message has what was looked for. */
int launch_rank_find(struct launch_rank *out, int n_nodes, int rank, int size,
                     const char *(*get)(const char *name), struct err *e);

/* Checks that this is one of the `n_nodes` processes of the job. ERR_CONFIG. */
int launch_rank_check(const struct launch_rank *r, int n_nodes, struct err *e);
/* Checks that a launcher of MPI has started this process, with the same number. ERR_CONFIG. */
int launch_rank_check_mpi(const struct launch_rank *r, const char *(*get)(const char *name), struct err *e);

/* A name that is the same in all processes of a launch, and again when the queue starts the same job once
 * more: of Slurm "JOB", or "JOB.STEP" of its second srun or a later one; of Open MPI and torchrun what these
 * call it. "": there is none. */
void launch_name(char *out, size_t size, const char *(*get)(const char *name));
/* A name of this launch, which no other launch has: of srun "JOB.STEP.RESTARTS", of the
 * others with torchrun's count of restarts. "": there is none. */
void launch_identity(char *out, size_t size, const char *(*get)(const char *name));
/* Whether the two are identities of different launches. Restarts of one are the same: torchrun counts them on
 * each machine by itself. False if one of them is "". */
bool launch_is_other(const char *one, const char *other);
/* Whether the launcher says that all its processes are on this machine. */
bool launch_is_here(const char *(*get)(const char *name));

#endif
