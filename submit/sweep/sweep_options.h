/* sweep_options -- the options of a sweep that are those of its runs. */
#ifndef PSGD_SUBMIT_SWEEP_OPTIONS_H
#define PSGD_SUBMIT_SWEEP_OPTIONS_H

#include "submit/options/submit_options.h"

/* ERR_USAGE: an option is for the other kind of runs (jobs on agents, or simulations). */
int sweep_check_options(const struct options *o, struct err *e);
/* The options given that the verb takes, without those of the sweep itself: ["--epochs=2", ...].
 * `without_job`: without those that define the job, which a resumed job takes from the earlier one. The
 * caller owns the list. */
json_t *sweep_list_options(const struct options *o, uint64_t verb, bool without_job);
/* Has the user chosen when the runs keep checkpoints, or that they keep none? */
bool sweep_has_own_checkpoints(const struct options *o);

#endif
