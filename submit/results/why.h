/* why -- explains the state of a job in a sentence: the node that caused it, the meaning of its reason, and
 * the nodes that ended in consequence; then the results that exist, and the next command. */
#ifndef PSGD_SUBMIT_WHY_H
#define PSGD_SUBMIT_WHY_H

#include <jansson.h>

#include "shared/base/err.h"

/* Sets *out, which the caller owns, to
 * {"id","state","cause_node","reason","meaning","message","why","kept","next"}, texts or null. `run`: a
 * run.json, read from a folder or made of what the agents report. ERR_CONFIG: it has no id or state;
 * ERR_NOMEM. */
int why_json(json_t **out, const json_t *run, struct err *e);

#endif
