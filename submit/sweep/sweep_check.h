/* sweep_check -- the checks of all combinations before the first run. */
#ifndef PSGD_SUBMIT_SWEEP_CHECK_H
#define PSGD_SUBMIT_SWEEP_CHECK_H

#include "submit/sweep/sweep.h"

/* Reads and checks the job of these options, and runs nothing. */
typedef int sweep_check_job(const struct options *o, struct err *e);

/* Parses the options of all combinations, then calls `check` for each of them that has a first run which has
 * not succeeded. Writes nothing. An error names the first wrong combination; its code is that of the run's
 * own command. ERR_CANCELLED: a signal. Sets s->begins_anew of a combination whose first run is valid only
 * without a checkpoint at its end. */
int sweep_check(struct sweep *s, sweep_check_job *check, struct err *e);

#endif
