/* guard -- ends a simulation whose codec does not return from a call, or from its constructors: a thread
 * checks once a second. The codec of a simulation is not confined, so it can circumvent the guard. */
#ifndef PSGD_SIM_GUARD_H
#define PSGD_SIM_GUARD_H

#include "runner/base/stopwatch.h"
#include "shared/base/err.h"

/* From now on a call of the codec `name` that takes more than `limit_s` of the clock ends the process with
 * status 1, and a summary of the failure in `folder`. One per process; all three are borrowed until it ends.
 * Returns the process's watch. NULL: ERR_NOMEM. */
struct stopwatch *guard_begin(const char *folder, const char *name, double limit_s, struct err *e);

#endif
