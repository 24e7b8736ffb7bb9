/* summary -- what a simulation came to, for job_submit: one document with what a job's agents would have
 * told of each node, and what only a simulation knows. */
#ifndef PSGD_SIM_SUMMARY_H
#define PSGD_SIM_SUMMARY_H

#include <jansson.h>

#include "sim/explore.h"

/* `found`: of a search through all orders, or NULL. `seconds`: that the simulation itself took. NULL: no
 * memory. */
json_t *sim_summary(const struct sim *s, const struct explore_result *found, double seconds);

/* Replaces the file at `path`. */
int sim_summary_write(json_t *take_doc, const char *path, struct err *e);

#endif
