/* sweep_check -- are all combinations of a sweep jobs that can run? */
#ifndef PSGD_SUBMIT_SWEEP_CHECK_H
#define PSGD_SUBMIT_SWEEP_CHECK_H

#include "submit/sweep/sweep_run.h"

/* Reads and checks the job of these options, and runs nothing. */
typedef int sweep_check_job(const struct options *o, struct err *e);

/* Parses the options of all combinations, then has `check` check the job of each, but not those of which all
 * runs have succeeded before. Writes nothing. The first wrong one is named before its error, whose code is
 * that of the run's own command. ERR_CANCELLED: a signal. */
int sweep_check(const struct sweep *s, sweep_check_job *check, struct err *e);

#endif
