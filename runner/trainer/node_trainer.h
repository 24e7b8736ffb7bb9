/* node_trainer -- a worker whose steps a user's program computes (shared/trainer/): instead of data of psgd's
 * it has the program, which the monitor starts, and whose turns follow from the worker's requests.
 *
 *   WORKER_COMPUTES    GO; the answer is GRADIENT, or, where the rule reads no gradients, UPDATED
 *   WORKER_UPDATES     UPDATE by the exchanged gradient, unless it has answered UPDATED already
 *   WORKER_STORES      STORE
 *   WORKER_EVALUATES   EVALUATE
 *   WORKER_SAVES       SAVE, into a file whose bytes become part of the checkpoint
 *
 * The vectors of the model are in the program's memory; its gradient is copied only where the nodes of a
 * machine sum gradients in memory of their own, and the exchanged one always, because a rule may have changed
 * it. While the program has the turn, this process also receives what peers send, but keeps it until the turn
 * is over, as a rule's handler may change params: so no peer waits for a slow program to let its messages
 * through, and the loss of a node that the job needs ends this node at once. */
#ifndef PSGD_NODE_TRAINER_H
#define PSGD_NODE_TRAINER_H

#include "runner/node.h"

extern const struct node_training node_trainer;

#endif
