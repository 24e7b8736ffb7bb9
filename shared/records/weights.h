/* weights -- files of a model's weights, safetensors: models, checkpoints, and files of other programs. The
 * names of their tensors, their metadata, and the checks of both. A checkpoint has "model/" before the names
 * of the model's tensors, and the vectors of optimizer and codec besides. */
#ifndef PSGD_WEIGHTS_H
#define PSGD_WEIGHTS_H

#include <stdbool.h>
#include <stdint.h>

#include "shared/base/crypto.h"
#include "shared/base/err.h"
#include "shared/job/model_spec.h"
#include "shared/records/tensor_file.h"

/* Metadata: values of "format" and "version" of a checkpoint; the key of the preprocessing record. */
#define CHECKPOINT_FORMAT  "psgd-checkpoint"
#define CHECKPOINT_VERSION "2"
#define PREPROCESSING_META "preprocessing"

/* Words of the tensor codec/K/cursor of a checkpoint, I64 (CURSOR_WORDS): where the codec K of a node is.
 * runner/exchange/exchange_state.h has their meaning. */
enum checkpoint_cursor {
    CURSOR_STEP,
    CURSOR_ROUND,
    CURSOR_SAMPLES,
    CURSOR_GENERATOR, /* 4 words */
    CURSOR_LR_FACTOR = CURSOR_GENERATOR + 4,
    CURSOR_N_LOCAL,
    CURSOR_LR_SUM,
    CURSOR_SERVER_ROUND,
    CURSOR_WORDS
};

/* *out: the tensor of a model as floats, which are at `data`. */
void weights_view(struct tensor_view *out, const struct model_tensor *t, const float *data);

/* Checks that the tensors whose names begin with `prefix` are exactly those of the model, with its shapes,
 * of F32, F16, BF16 or F64, and all values finite as floats. ERR_CONFIG: the message has the tensor, and
 * both shapes. */
int weights_check(const struct tensor_file *f, const char *prefix, const struct model_spec *m, struct err *e);
/* As weights_check, but does not read the values. */
int weights_check_shapes(const struct tensor_file *f, const char *prefix, const struct model_spec *m,
                         struct err *e);

/* Returns the tensor named prefix + name, NULL if there is none. */
const struct tensor_view *weights_find(const struct tensor_file *f, const char *prefix, const char *name);
/* Copies its values as floats, F32 bit by bit. */
void weights_floats(float *out, const struct tensor_view *t);

/* The digest of the trained tensors in the model's order, as in a file, whatever their order in `params`
 * (placement.h); `m` has their offsets. Running statistics are left out: a rule that writes its own messages
 * does not make them equal. False: no memory. */
bool weights_sha256(uint8_t out[SHA256_BYTES], const struct model_spec *m, const float *params);

/* Whether the file is a checkpoint, of any version and node. */
bool weights_is_checkpoint(const struct tensor_file *f);
/* Returns the prefix of the names of the model's tensors: "model/" in a checkpoint, else "". */
const char *weights_prefix(const struct tensor_file *f);
/* *out: the metadata's value of `key`; it belongs to the file. ERR_CONFIG: there is none. */
int weights_meta(const char **out, const struct tensor_file *f, const char *key, struct err *e);

/* Checks that the file is a checkpoint of this version and of this node. job_submit checks it before it sends
 * a checkpoint, job_runner before it restores one. ERR_CONFIG. */
int weights_check_node(const struct tensor_file *f, int node, struct err *e);
/* Checks that the same codec object wrote the checkpoint; another may have a different layout of its state.
 * ERR_CONFIG. */
int weights_check_codec(const struct tensor_file *f, const char *codec, const char *sha256, struct err *e);

/* The preprocessing record (submit/data/preprocessing.h) as job_submit ships it in the package of the model.
 * Runners and the simulator write it, as it is, into the metadata of the files of weights. */
#define PREPROCESSING_FILE "preprocessing.json"

/* Bytes of the record. Even with the quotation marks of its texts escaped it fits the header of a safetensors
 * file, which has at most 16 MiB. */
enum { PREPROCESSING_MAX = 6 << 20 };

/* *out: the record of the package in `folder`, or NULL if it has none; the caller frees it. ERR_CONFIG: not
 * UTF-8, or longer than PREPROCESSING_MAX. */
int weights_read_preprocessing(char **out, const char *folder, struct err *e);

#endif
