/* stragglers -- how long each worker's steps take without waiting, and which worker is a straggler: slower
 * than twice the median of all workers for STRAGGLER_STEPS steps, in at least two reports of its progress one
 * after the other: nodes report at most five times a second, so a report is often about more steps than
 * these. With an even number of workers the median is the lower of the two in the middle: of two workers the
 * faster one. */
#ifndef PSGD_SUBMIT_STRAGGLERS_H
#define PSGD_SUBMIT_STRAGGLERS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "submit/job/submission.h"

enum { STRAGGLER_STEPS = 5, STRAGGLER_REPORTS = 2, STRAGGLER_AVERAGED = 100 };

/* Looks at the progress that has been reported; names each new straggler in the log. */
void stragglers_find(struct submission *s);
/* Of a job that nobody has watched: compares the averages over its steps, from STRAGGLER_AVERAGED steps on.
 * A straggler is one since step 1. */
void stragglers_of_all(struct submission *s);
/* "node(2) is slower than twice the median since step 15: 180 ms a step, the median 60 ms"; returns whether
 * it is a straggler. */
bool straggler_text(char *out, size_t size, const struct submission *s, size_t node);
/* [{"node","since_step","step_s","median_s"}]; NULL: no memory. */
json_t *stragglers_json(const struct submission *s);

#endif
