/* sweep_agents -- the agents of runs that run at once: each lane has a list of its own, lanes/K.json in the
 * folder of the sweep, and no agent is in two lists. */
#ifndef PSGD_SUBMIT_SWEEP_AGENTS_H
#define PSGD_SUBMIT_SWEEP_AGENTS_H

#include "shared/job/worker_list.h"
#include "submit/sweep/sweep.h"

/* Sets s->n_lanes by --parallel: N, or with "auto" as many as the list of agents has workers for, but not
 * more than combinations and seeds; 1 without the option. ERR_USAGE: no number, simulations, servers in the
 * list, which each job takes all, or too few agents. */
int sweep_count_lanes(struct sweep *s, struct err *e);
/* Writes the lists, if there are several lanes. */
int sweep_write_lanes(const struct sweep *s, struct err *e);
/* The path of the list of a lane; "" if there is only one lane. */
int sweep_lane_list(char out[PATH_MAX], const struct sweep *s, size_t lane, struct err *e);

/* The list of the workers and spares of one of n lanes: equal shares of both, in the order of `all`. The
 * caller owns it. */
json_t *sweep_share_agents(const struct worker_list *all, size_t lane, size_t n);

#endif
