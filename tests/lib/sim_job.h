/* sim_job -- a simulation with one of the built codecs, for a test. */
#ifndef PSGD_TEST_SIM_JOB_H
#define PSGD_TEST_SIM_JOB_H

#include "sim/sim.h"

/* As sim_open, in a folder that holds only the codec, named as in cluster_config. Aborts with a message on
 * failure. */
void sim_job_open(struct sim *s, const struct settings *set, const struct simulation *how, const char *codec);
/* The same, but returns false where sim_open fails. */
bool sim_job_try(struct sim *s, const struct settings *set, const struct simulation *how, const char *codec,
                 struct err *e);

#endif
