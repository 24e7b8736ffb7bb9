/* regroup -- makes checkpoints for another number of workers than wrote them, of a rule whose state is common
 * to all workers (rule_settings_own_state).
 *
 *   model, codec        of one worker; the others' must be equal to the bit. A codec's generator is new
 *   optimizer           the mean over the workers: of a rule that combines gradients it is equal on all, of
 *                       local steps each worker has its own
 *   place in the data   the same share of the job's epochs; where a round would be open there, the end of the
 *                       round before. Schedules follow the new number of steps
 *   evaluations shared  left out: --patience counts anew
 *
 * A worker's checkpoint may be missing, as that of a lost one; each server's must be there. */
#ifndef PSGD_SUBMIT_REGROUP_H
#define PSGD_SUBMIT_REGROUP_H

#include "shared/base/json.h"
#include "submit/job/submission.h"
#include "submit/results/results.h"

/* The workers of the earlier job, from its run.json; 0: it does not say. */
int regroup_workers_then(const json_t *earlier);
/* Call it where that number is another one. ERR_CONFIG: the earlier job's checkpoints serve no other. */
int regroup_check(const struct submission *s, const json_t *earlier, struct err *e);
/* Makes s->checkpoints from those at the position, and sets *p to the place in this job. ERR_CONFIG: a
 * round was open, or the workers differ. */
int regroup_make(struct submission *s, struct checkpoint_position *p, const json_t *earlier, struct err *e);

#endif
