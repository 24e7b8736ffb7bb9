/* node_execute -- a node that runs an executor: it prepares an input and arguments instead of a model and a
 * loader, and runs the executor. */
#ifndef PSGD_NODE_EXECUTE_H
#define PSGD_NODE_EXECUTE_H

#include "runner/node.h"

extern const struct node_execution node_execute;

#endif
