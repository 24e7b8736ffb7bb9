/* outcome -- derives the state of the job from the states of its nodes. */
#ifndef PSGD_SUBMIT_OUTCOME_H
#define PSGD_SUBMIT_OUTCOME_H

#include "submit/job/submission.h"

/* True if the job tolerates the failure of this worker: with --on-node-loss continue, while at least
 * --min-nodes workers have not failed. A node that ended before its start is none that the others have worked
 * with: the job has then not begun, and fails. */
bool outcome_tolerates(const struct submission *s, const struct job_node *n);

/* Index of the node whose end explains the others'; -1 while every ended node succeeded or its failure is
 * tolerated. */
int outcome_cause(const struct submission *s);

/* State of the whole job: that of the cause if there is one, else the state of the least advanced node.
 * Nodes whose agents do not answer count as `silent_state`. */
enum job_state outcome_state(const struct submission *s, enum job_state silent_state);

/* Sets state and cause of a job that was not watched to its end, from its nodes' answers. The result of an
 * earlier command that watched the job is kept with its reason, because that command saw the first failure;
 * unless all nodes answer and succeeded: then a silent agent was no failure. Otherwise a node with a silent
 * agent counts as running, since its runner continues without the agent. Returns true if an earlier result
 * changed. */
bool outcome_update(struct submission *s);

#endif
