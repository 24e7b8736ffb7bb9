/* checkpoint_meta -- checks the metadata of a checkpoint: its format, node and codec. job_submit checks
 * before sending one, job_runner before restoring it. Each check fails with ERR_CONFIG. */
#ifndef PSGD_CHECKPOINT_META_H
#define PSGD_CHECKPOINT_META_H

#include <stdbool.h>

#include "shared/base/err.h"
#include "shared/records/tensor_file.h"

#define CHECKPOINT_FORMAT  "psgd-checkpoint"
#define CHECKPOINT_VERSION "2"

/* Whether the file is a checkpoint, of any version and node, and not a model. */
bool checkpoint_meta_is(const struct tensor_file *f);
/* What the names of the model's parameters begin with in a file: "model/" in a checkpoint, "" in a model. */
const char *checkpoint_meta_prefix(const struct tensor_file *f);
/* Checks that it has this version and belongs to this node. */
int checkpoint_meta_check_node(const struct tensor_file *f, int node, struct err *e);
/* Checks that it was written by the same codec object; another may have a different state layout. */
int checkpoint_meta_check_codec(const struct tensor_file *f, const char *codec, const char *sha256,
                                struct err *e);
/* *out: the metadata's value of `key`; it belongs to the file. ERR_CONFIG: there is none. */
int checkpoint_meta_get(const char **out, const struct tensor_file *f, const char *key, struct err *e);

#endif
