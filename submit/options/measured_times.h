/* measured_times -- the times that simulations have measured on this machine, in a file for later ones. Two
 * simulations of the same job measure different times, by some ten per cent, on a busy machine by far more;
 * runs that are compared should not differ by that. */
#ifndef PSGD_SUBMIT_MEASURED_TIMES_H
#define PSGD_SUBMIT_MEASURED_TIMES_H

#include <jansson.h>

#include "shared/base/err.h"
#include "shared/job/simulation.h"

/* Sets the times that `how` leaves open to those that the file has for `of`, the description of what was
 * measured, which is compared as a whole. If the file has none for `of`, the times of a message and of the
 * codec are those of a job with the same model, nodes and processors. A file that does not exist has none.
 * ERR_CONFIG: it is no such file. */
int measured_take(struct simulation *how, const char *file, const json_t *of, struct err *e);
/* Adds the times that a simulation has measured to the file: step_time, eval_time_s, codec_rate_mbps and
 * overhead of its result. If the file has times for `of`, they stay. ERR_IO, ERR_CONFIG. */
int measured_keep(const char *file, const json_t *of, const json_t *result, struct err *e);

/* A copy of the document of a simulation's options, in which those of the four times that are open have the
 * values of `result`. NULL: no memory. */
json_t *measured_options(const json_t *options, const json_t *result);

#endif
