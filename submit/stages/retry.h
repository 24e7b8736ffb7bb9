/* retry -- further attempts of a job: --retries N --retry-on REASON,... An attempt that fails for one of
 * these reasons is followed by another one, with the same id, on the agents that answer and on spares, from
 * the last checkpoint that is there for all nodes. The agents are fences against the attempts before
 * (docs/protocol.md 1.4).
 *
 * The result folder is that of the latest attempt. FOLDER/attempts/K has what attempt K has left;
 * records/ begin with the rows that it did up to that checkpoint. facts.attempts in run.json lists them. */
#ifndef PSGD_SUBMIT_RETRY_H
#define PSGD_SUBMIT_RETRY_H

#include "submit/job/submission.h"

/* The attempt is over: is another one due? */
bool retry_is_due(const struct submission *s);

/* Makes `s` the next attempt, whose results are not written yet. */
int retry_begin(struct submission *s, struct err *e);

/* Before the results of a later attempt are begun: moves those of the attempt before aside. */
int retry_set_aside(const struct submission *s, struct err *e);

#endif
