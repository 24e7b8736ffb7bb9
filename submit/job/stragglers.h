/* stragglers -- how long each worker's steps take without waiting, and which worker is a straggler: its steps
 * take more than twice the median of all workers, for at least STRAGGLER_STEPS steps and in at least
 * STRAGGLER_REPORTS consecutive reports of progress. (Nodes report at most five times a second, so one report
 * may cover many steps.) With an even number of workers the median is the lower of the two middle values: of
 * two workers, that of the faster one. */
#ifndef PSGD_SUBMIT_STRAGGLERS_H
#define PSGD_SUBMIT_STRAGGLERS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "submit/job/submission.h"

enum { STRAGGLER_STEPS = 5, STRAGGLER_REPORTS = 2, STRAGGLER_AVERAGED = 100 };

/* Evaluates the latest reports of progress; prints each new straggler. */
void stragglers_find(struct submission *s);
/* For a job that was not watched: compares the averages over all steps of workers with STRAGGLER_AVERAGED
 * steps or more. Such a straggler counts as one since step 1. */
void stragglers_of_all(struct submission *s);
/* "node(2) is slower than twice the median since step 15: 180 ms a step, the median 60 ms"; returns whether
 * it is a straggler. */
bool straggler_text(char *out, size_t size, const struct submission *s, size_t node);
/* [{"node","since_step","step_s","median_s"}]; NULL: no memory. */
json_t *stragglers_json(const struct submission *s);

#endif
