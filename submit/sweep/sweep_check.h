/* sweep_check -- are all combinations of a sweep jobs that can run? */
#ifndef PSGD_SUBMIT_SWEEP_CHECK_H
#define PSGD_SUBMIT_SWEEP_CHECK_H

#include "submit/sweep/sweep_run.h"

/* Parses the options of all combinations, then reads and checks the job of each, as `validate` does, but
 * those of which all runs have succeeded before. Writes nothing. The first wrong one is named before its
 * error, whose code is that of the run's own command. ERR_CANCELLED: a signal. */
int sweep_check(const struct sweep *s, struct err *e);

#endif
