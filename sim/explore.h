/* explore -- tries every order of events of a short job of few nodes. Choices replace time: which message
 * in transit is delivered next, or which node computes next. A schedule is the list of choices; each is run
 * from the job's beginning.
 *
 * Choices at different nodes are independent, so of schedules that differ only in the order of adjacent
 * independent choices one is run (sleep sets; Godefroid, "Partial-Order Methods for the Verification of
 * Concurrent Systems", 1996, ch. 5): it counts the orders that nodes can distinguish. */
#ifndef PSGD_SIM_EXPLORE_H
#define PSGD_SIM_EXPLORE_H

#include "sim/sim.h"

enum { EXPLORE_NODES = 5, EXPLORE_DEPTH = 640, EXPLORE_TEXT = 3 * EXPLORE_DEPTH + 1 };

struct explore_result {
    uint64_t n_orders;        /* run to their end */
    uint64_t n_different;     /* of these: ended with other weights than the first one */
    bool is_complete;         /* all orders were run */
    char failure[256];        /* failure of the last one; "": none */
    char order[EXPLORE_TEXT]; /* the last one, for --replay */
};

/* Runs one order after the other on `s`, until one fails or all are done, and leaves `s` at the end of the
 * last one. `wanted` "": all orders, else only that one. ERR_CONFIG: too many nodes, or `wanted` is not an
 * order of this job; ERR_CANCELLED: a signal; *out has the progress. */
int sim_explore(struct sim *s, const char *wanted, struct explore_result *out, struct err *e);

#endif
