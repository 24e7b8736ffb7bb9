/* model_now -- the model of a running node, as it is between two of its steps: asks the runner for it, and
 * answers the request when the runner has written it. Requests that wait together get one file. */
#ifndef PSGD_MODEL_NOW_H
#define PSGD_MODEL_NOW_H

#include "agent/api/agent_state.h"
#include "agent/api/routes.h"

/* Returns whether the node trains, and so has a model that changes; otherwise fills the response. */
bool model_now_exists(const struct task *t, struct response *rs);
/* Fills the response with RESPONSE_MODEL, which waits until `deadline` (clock_now), or with the problem that
 * this node has no model now. */
void model_now_ask(struct task *t, double deadline, struct response *rs);
/* NULL: the job was removed meanwhile. */
bool model_now_is_over(const struct task *t, const struct response *rs);
/* Then: fills the response with the file, or with what kept the node from writing it. */
void model_now_respond(struct task *t, struct response *rs);

#endif
