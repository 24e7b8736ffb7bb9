/* explore -- every order in which a short job of few nodes can go. In place of time there are choices: which
 * of the messages under way is delivered next, or which node computes next. A schedule is the list of what
 * was chosen; each is run from the job's beginning.
 *
 * Choices at different nodes do not touch each other, so of schedules that differ in the order of such
 * neighbours only one is run (sleep sets; Godefroid, "Partial-Order Methods for the Verification of
 * Concurrent Systems", 1996, ch. 5): what is counted are the orders that nodes can tell apart. */
#ifndef PSGD_SIM_EXPLORE_H
#define PSGD_SIM_EXPLORE_H

#include "sim/sim.h"

enum { EXPLORE_NODES = 5, EXPLORE_DEPTH = 640, EXPLORE_TEXT = 3 * EXPLORE_DEPTH + 1 };

struct sim_explorer;

struct explore_result {
    uint64_t n_orders;        /* run to their end */
    uint64_t n_different;     /* of these: end with other weights than the first one */
    bool is_complete;         /* there are no others */
    char failure[256];        /* what is wrong with the last one; "": nothing */
    char order[EXPLORE_TEXT]; /* the last one, to be replayed */
};

/* Runs one order after the other on `s`, which is left where the last one ended: one that fails, or the
 * last there is. `wanted` "": all of them, else that one alone. ERR_CONFIG: too many nodes, or `wanted` is
 * no order of this job; ERR_CANCELLED: a signal came; *out says how far it is. */
int sim_explore(struct sim *s, const char *wanted, struct explore_result *out, struct err *e);

/* For the simulation's carry. */
int sim_explorer_keep(struct sim_explorer *x, struct sim_message *l, struct err *e);

#endif
