/* measured_times -- the times that simulations have measured on this machine, kept in a file for later ones:
 * of the same job each simulation measures other times, within some ten per cent or on a busy machine far
 * more, and runs that are compared should not differ by that. */
#ifndef PSGD_SUBMIT_MEASURED_TIMES_H
#define PSGD_SUBMIT_MEASURED_TIMES_H

#include <jansson.h>

#include "shared/base/err.h"
#include "shared/job/simulation.h"

/* `of` describes what was measured, and is compared as a whole. */

/* Sets the times that `how` leaves open to those in the file for `of`; a file that is not there has none.
 * ERR_CONFIG: it is no such file. */
int measured_take(struct simulation *how, const char *file, const json_t *of, struct err *e);
/* Adds to the file what a simulation has measured: step_time, eval_time_s, codec_rate_mbps and overhead of
 * its result. What the file has for `of` stays. ERR_IO, ERR_CONFIG. */
int measured_keep(const char *file, const json_t *of, const json_t *result, struct err *e);

/* A copy of the document of a simulation's options in which those of these four that are open are what
 * `result` has; NULL: no memory. */
json_t *measured_options(const json_t *options, const json_t *result);

#endif
