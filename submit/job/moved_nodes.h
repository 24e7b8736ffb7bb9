/* moved_nodes -- nodes of a job whose agents were joined at another address. */
#ifndef PSGD_SUBMIT_MOVED_NODES_H
#define PSGD_SUBMIT_MOVED_NODES_H

#include "submit/job/job_node.h"

/* Gives each of n nodes, `stride` bytes apart, for which neither pin nor token was found (node_find_access),
 * those of an agent that was joined at another address, if it is that one; says so, and keeps the address. */
int moved_nodes_find(struct job_node *nodes, size_t n, size_t stride, struct err *e);

#endif
