/* sweep_process -- one run of a sweep, which is the command `submit` or `simulate` in a process of its own.
 * If an earlier attempt left a job that may still run on agents, the process waits for that job instead; if
 * its end cannot be known now, because its agents do not answer, the run fails, so that no run has two jobs.
 * Other remains of an earlier attempt are removed. A run of a later rung continues from the last checkpoint
 * of its run in the rung before, and begins anew if that has none. */
#ifndef PSGD_SUBMIT_SWEEP_PROCESS_H
#define PSGD_SUBMIT_SWEEP_PROCESS_H

#include "shared/base/child.h"
#include "submit/sweep/sweep.h"

enum { SWEEP_WHY = 256 };
enum sweep_state { SWEEP_RUNNING, SWEEP_SUCCEEDED, SWEEP_FAILED };

struct sweep_process {
    const struct sweep *s;
    struct sweep_run run;
    struct child child; /* child.fd becomes readable when it has ended; pid 0: there is none */
    char folder[PATH_MAX], log[PATH_MAX];
    char agents[PATH_MAX]; /* the list of its lane; "": that of the options */
    bool is_waiting;       /* for the job of an earlier attempt */
};

/* True if a run of a later rung continues from a checkpoint; `earlier`: the folder of the run that kept
 * it. */
bool sweep_can_resume(char earlier[PATH_MAX], const struct sweep *s, const struct sweep_run *run);

/* True if an earlier attempt left a job of the run that may still run on agents. */
bool sweep_has_job(const struct sweep *s, const struct sweep_run *run);

/* The lane decides on which agents the run begins. */
int sweep_process_start(struct sweep_process *p, const struct sweep *s, const struct sweep_run *run,
                        size_t lane, struct err *e);
/* Call when child.fd is readable. *state: how the run has ended, or SWEEP_RUNNING: it goes on in another
 * process. `why`: the error line of a failed run's log. */
int sweep_process_ended(struct sweep_process *p, enum sweep_state *state, char why[SWEEP_WHY], struct err *e);
/* Ends the processes; they have 30 seconds to release their reservations. Jobs on agents continue. */
void sweep_processes_stop(struct sweep_process *p, size_t n);

#endif
