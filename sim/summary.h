/* summary -- the result of a simulation, for job_submit: one document with the reports that a job's agents
 * would send about each node, and values that only a simulation has. */
#ifndef PSGD_SIM_SUMMARY_H
#define PSGD_SIM_SUMMARY_H

#include <jansson.h>

#include "sim/explore.h"

/* `found`: result of a search of all orders, or NULL. `seconds`: real time of the simulation. Returns NULL
 * without memory. */
json_t *sim_summary(const struct sim *s, const struct explore_result *found, double seconds);

#endif
