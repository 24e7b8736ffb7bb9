/* path_cost -- the cost of one exchange on a path, between machines: the number of messages that are sent one
 * after the other, and the bytes through the link of the busiest machine, each way. allreduce_kinds.h has the
 * sources of the formulas. */
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

/* The cost if each worker has its own machine. */
struct path_cost path_cost_direct(int n_workers, double bytes);
struct path_cost path_cost_circulant(int n_workers, double bytes);
/* The cost of the path's all-reduce, by the faster algorithm, or of gather. {0} for servers. */
struct path_cost path_cost(enum combine_path_kind kind, const struct path_layout *l);

/* Returns the time of an exchange, in bytes that a link transfers in that time (Thakur et al. 2005, section
 * 3). A message takes as long as the product of latency and bandwidth in bytes: 12 to 25 kB from 10 Mbit/s
 * and 20 ms to 10 Gbit/s and 20 us. 16 KiB are assumed. */
double path_cost_time(struct path_cost c);

#endif
