/* start_from -- where a job's weights come from: the seed, a file (--init-from), or the checkpoints that an
 * earlier job left in its folder (--resume). Whatever it is, it is checked here against model and settings
 * before an agent hears of it, and shown in run.json under facts.start. */
#ifndef PSGD_SUBMIT_START_FROM_H
#define PSGD_SUBMIT_START_FROM_H

#include "submit/stages/submission.h"

#define START_PREVIOUS "-previous"

/* Sets settings.starts_from. ERR_CONFIG: checkpoints are asked for, and the rule cannot be kept. */
int start_choose(struct submission *s, bool can_rest, struct err *e);
/* The steps of an epoch are known. ERR_CONFIG: nodes could be so far apart that no two checkpoints of theirs
 * are of the same epoch. */
int start_check_kept(const struct submission *s, struct err *e);
/* Settings, model and nodes are known: makes the blobs of package weights. ERR_CONFIG: names the tensor, the
 * setting or the node that does not fit. */
int start_prepare(struct submission *s, struct err *e);

/* "checkpoints/node-1.safetensors", a server's "checkpoints/ps-0.safetensors"; `ending` "" or
 * START_PREVIOUS. */
void start_checkpoint_name(char out[64], int node, const char *ending);

#endif
