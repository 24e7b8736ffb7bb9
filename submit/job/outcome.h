/* outcome -- derives the state of the job from the states of its nodes, and which node is the cause if
 * several have failed. */
#ifndef PSGD_SUBMIT_OUTCOME_H
#define PSGD_SUBMIT_OUTCOME_H

#include "submit/job/submission.h"

/* True if the job tolerates the failure of this worker: with --on-node-loss continue, while at least
 * --min-nodes workers have not failed. If a node has ended before it has started, the job has not begun, and
 * fails. */
bool outcome_tolerates(const struct submission *s, const struct job_node *n);

/* Index of the node whose end has caused that of the others; -1 while every ended node has succeeded or its
 * failure is tolerated. */
int outcome_cause(const struct submission *s);

/* State of the whole job: that of the cause if there is one, else the state of the least advanced node.
 * Nodes whose agents do not answer count as `silent_state`. */
enum job_state outcome_state(const struct submission *s, enum job_state silent_state);

/* Sets state and cause of a job that was not watched to its end, from its nodes' answers. The result of an
 * earlier command that watched the job stays, with its reason, because that command observed the first
 * failure; but if all nodes answer and have succeeded, the silent agent was no failure. Without an earlier
 * result, a node with a silent agent counts as running, because its runner continues without the agent.
 * Returns true if an earlier result changed. */
bool outcome_update(struct submission *s);

#endif
