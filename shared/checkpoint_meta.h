/* checkpoint_meta -- the words of a checkpoint's metadata that say what it is and whose: job_submit asks
 * before it ships one, job_runner before it goes on from it. Each check fails with ERR_CONFIG. */
#ifndef PSGD_CHECKPOINT_META_H
#define PSGD_CHECKPOINT_META_H

#include <stdbool.h>

#include "shared/err.h"
#include "shared/tensor_file.h"

#define CHECKPOINT_FORMAT  "psgd-checkpoint"
#define CHECKPOINT_VERSION "1"

/* A checkpoint, of whatever version and node, and no model? */
bool checkpoint_meta_is(const struct tensor_file *f);
/* Is it one of this version, and this node's? */
int checkpoint_meta_check_node(const struct tensor_file *f, int node, struct err *e);
/* Was it written by this very file of the codec? Another may lay out its state differently. */
int checkpoint_meta_check_codec(const struct tensor_file *f, const char *codec, const char *sha256,
                                struct err *e);
/* Any word of the metadata; it is the file's. ERR_CONFIG: there is none for `key`. */
int checkpoint_meta_get(const char **out, const struct tensor_file *f, const char *key, struct err *e);

#endif
