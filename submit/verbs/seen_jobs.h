/* seen_jobs -- the jobs of others: agents show them to a token of scope read, which may follow jobs and
 * submit none, so that the index here has none of them. */
#ifndef PSGD_SUBMIT_SEEN_JOBS_H
#define PSGD_SUBMIT_SEEN_JOBS_H

#include <jansson.h>

#include "submit/job/submission.h"
#include "submit/options/submit_options.h"

/* Asks the agents of the list, for at most three seconds. The newest job is first; each is of run.json's
 * form, as far as agents report it, with "submitted_by" (the name of the token; null: not known) and "said",
 * what the agent of each node says: [{"node", "address", "job"}]. Empty where there is no list, or no
 * agent grants scope read and no more. NULL: no memory. The caller owns it. */
json_t *seen_jobs_ask(const struct options *o);
/* By an id, the beginning of one, or a name; NULL: the newest. NULL: there is none, or several. Borrowed. */
const json_t *seen_jobs_find(const json_t *jobs, const char *which);
/* Fills an initialized submission, for what shows jobs. ERR_PROTOCOL, ERR_NOMEM. */
int seen_jobs_load(struct submission *s, const json_t *job, struct err *e);

#endif
