/* why -- says in one sentence why a job is in its state: the node that ended first with a reason of its own,
 * what the reason means, and which nodes ended in consequence; then what is kept, and the next command. */
#ifndef PSGD_SUBMIT_WHY_H
#define PSGD_SUBMIT_WHY_H

#include <jansson.h>

#include "shared/base/err.h"

/* From the contents of a run.json, present or kept:
 * {"id","state","cause_node","reason","meaning","message","why","kept","next"}, texts or null. ERR_CONFIG:
 * it has no id or state; ERR_NOMEM. */
int why_json(json_t **out, const json_t *run, struct err *e);

#endif
