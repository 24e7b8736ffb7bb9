/* results_lock -- of the commands that make the results of a job without agents, one at a time writes them:
 * process 0 of psgd-run collects by itself, and a user may run wait or collect beside it, on any machine. */
#ifndef PSGD_SUBMIT_RESULTS_LOCK_H
#define PSGD_SUBMIT_RESULTS_LOCK_H

#include "submit/job/submission.h"

/* Takes the lock of the job's folder, and waits while another command has it; it is released at the latest by
 * submission_clear(). No effect on a job on agents, with the lock taken already, or where the folder cannot
 * be written to or its file system has no locks. ERR_CANCELLED: a signal while it waits. */
int results_lock(struct submission *s, struct err *e);
void results_unlock(struct submission *s);

#endif
