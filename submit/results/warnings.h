/* warnings -- what a job's result should not be believed for without a second look, in sentences: for the
 * table, run.json and whoever shows it. */
#ifndef PSGD_SUBMIT_WARNINGS_H
#define PSGD_SUBMIT_WARNINGS_H

#include <jansson.h>

#include "submit/job/submission.h"

/* ["The workers end different ...", ...]; NULL: no memory. They are those of the data set
 * (facts.data.warnings, submit/data/dataset.h) and these:
 *
 * Workers of a synchronous job end different, and the rule does not declare that they may (CODEC_OWN_RESULT,
 * codecs/codec.h). Compared are the SHA-256 of the weights that the workers themselves report in the end,
 * without running statistics; of a rule with a model of its own, such as easgd's center, that model. A worker
 * that has not ended by itself, or whose agent is too old to report it, does not count. If no exchange of a
 * simulation had a contribution with a weight, the warning says that instead (on agents, worker 0 warns of
 * it).
 *
 * A node reported another SHA-256 than that of the final model that was fetched.
 *
 * An asynchronous job has failed as a rule does that is not made for that (CODEC_NO_ASGD). */
json_t *warnings_json(const struct submission *s);

#endif
