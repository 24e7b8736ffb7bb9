/* path_cost -- what one exchange of a path takes between machines: messages one after the other, and bytes
 * through the busiest machine's link, each way. Formulas of the algorithms in allreduce_kinds.h. */
#ifndef PSGD_PATH_COST_H
#define PSGD_PATH_COST_H

#include "shared/job/combine_path_kinds.h"

/* The workers that exchange vectors of `bytes`. */
struct path_layout {
    int n_workers;
    int n_machines;
    int n_here_most; /* workers on the machine that has most */
    double bytes;
};

struct path_cost {
    int messages;
    double bytes;
};

/* Of workers with a machine each. */
struct path_cost path_cost_direct(int n_workers, double bytes);
struct path_cost path_cost_circulant(int n_workers, double bytes);
/* Of the path's all-reduce, with the algorithm that is quicker; of gather; {0} of servers. */
struct path_cost path_cost(enum combine_path_kind kind, const struct path_layout *l);

/* Time in bytes that a link transfers meanwhile (Thakur et al. 2005, section 3): a message takes a latency.
 * Only the product of latency and bandwidth matters: 12 to 25 kB from 10 Mbit/s and 20 ms to 10 Gbit/s and
 * 20 us. 16 KiB are assumed. */
double path_cost_time(struct path_cost c);

#endif
