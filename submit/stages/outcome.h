/* outcome -- what became of the job, from what became of its nodes. */
#ifndef PSGD_SUBMIT_OUTCOME_H
#define PSGD_SUBMIT_OUTCOME_H

#include "submit/stages/submission.h"

/* With --on-node-loss continue the job bears the failure of a worker while enough of the others stand. */
bool outcome_bears(const struct submission *s, const struct node *n);

/* The node whose end explains the others', as its index; -1 while all that ended did so with success
 * or are borne. */
int outcome_cause(const struct submission *s);

/* The state of the whole job: the cause's when there is one, else that of the node that is least far. Nodes
 * whose agents do not answer count with `unheard`. */
enum job_state outcome_state(const struct submission *s, enum job_state unheard);

/* The state and cause of a job that was not watched to its end, from what its nodes have answered. What an
 * earlier command found when it watched the job stays, with the reason, for it saw what came first; unless
 * all nodes answer and did well after all: that an agent was silent for too long is no failure then. Else a
 * node whose agent is silent counts as running, for its runner goes on without the agent. True: an earlier
 * judgement is another now. */
bool outcome_judge(struct submission *s);

#endif
