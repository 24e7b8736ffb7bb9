/* sweep_lanes -- carries out runs of a sweep, several at once if there are several lanes. */
#ifndef PSGD_SUBMIT_SWEEP_LANES_H
#define PSGD_SUBMIT_SWEEP_LANES_H

#include "submit/sweep/sweep.h"

/* Carries out those of the n runs that have not succeeded before; prints a line for each, and the error of
 * each failed one. ERR_CANCELLED: a signal. */
int sweep_carry_out(const struct sweep *s, const struct sweep_run *runs, size_t n, struct err *e);

#endif
