/* start_from -- the initial weights of a job: from the seed, a file (--init-from), or the checkpoints of an
 * earlier job (--resume). They are checked against model and settings before any agent is contacted, and
 * recorded in run.json under facts.start. */
#ifndef PSGD_SUBMIT_START_FROM_H
#define PSGD_SUBMIT_START_FROM_H

#include "shared/records/tensor_file.h"
#include "submit/data/preprocessing.h"
#include "submit/job/submission.h"

/* Sets settings.starts_from. is_quiescent: the codec has a complete state between steps. ERR_CONFIG:
 * checkpoints are requested, and the job cannot have them. */
int start_from_choose(struct submission *s, bool is_quiescent, struct err *e);
/* Once the servers are chosen. ERR_CONFIG: asgd without servers has no complete state to checkpoint. */
int start_from_check_asgd(const struct submission *s, struct err *e);
/* Call once the steps of an epoch are known. ERR_CONFIG: nodes may be so far apart that no two of their
 * checkpoints are of the same epoch. */
int start_from_check_kept(const struct submission *s, struct err *e);
/* The preprocessing record that the job starts from: that of the file of weights, or the one in the run.json
 * of the earlier job. Returns 1, or 0 if there is none: *out is empty. */
int start_from_preprocessing(struct preprocessing *out, const struct submission *s, struct err *e);
/* Call once settings, model and nodes are known: makes the blobs of package weights. ERR_CONFIG: names the
 * tensor, setting or node that does not fit. */
int start_from_prepare(struct submission *s, struct err *e);

#endif
