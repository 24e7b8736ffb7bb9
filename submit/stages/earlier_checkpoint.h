/* earlier_checkpoint -- the checkpoints of an earlier job, or of an earlier attempt of this one, which are in
 * the folder s->resume. `earlier`: that job's run.json. */
#ifndef PSGD_SUBMIT_EARLIER_CHECKPOINT_H
#define PSGD_SUBMIT_EARLIER_CHECKPOINT_H

#include "shared/records/tensor_file.h"
#include "submit/job/submission.h"
#include "submit/results/results.h"

/* True if this is a further attempt that continues from checkpoints of an earlier one. */
bool earlier_checkpoint_is_of_attempt(const struct submission *s);

/* Opens the last checkpoint of the node, or with the ending CHECKPOINT_PREVIOUS the one before.
 * ERR_NOT_FOUND: there is none; ERR_CONFLICT: it was changed after it was fetched. */
int earlier_checkpoint_open(struct tensor_file *f, char path[PATH_MAX], const struct submission *s,
                            const json_t *earlier, int node, const char *ending, struct err *e);
/* Both count as missing, since an earlier checkpoint may exist. */
bool earlier_checkpoint_is_missing(int code);
/* Opens the one at the position, the node's last or the one before. The codes are the same. */
int earlier_checkpoint_find(struct tensor_file *f, char path[PATH_MAX], const struct submission *s,
                            const json_t *earlier, int node, const struct checkpoint_position *p,
                            struct err *e);

/* *out: the settings of the job that wrote the checkpoint. The caller frees it. */
int earlier_checkpoint_settings(json_t **out, const struct tensor_file *f, struct err *e);
/* Checks that the file is a checkpoint of this node and of a job with these settings, `then`. */
int earlier_checkpoint_check(const struct submission *s, const struct tensor_file *f, int node,
                             const json_t *then, struct err *e);
/* ERR_CONFIG: this job ends with that epoch, or before. */
int earlier_checkpoint_check_end(const struct submission *s, long epoch, struct err *e);

#endif
