/* weights -- a model's parameters in a safetensors file: the names of its tensors, and a check of a file.
 * Models, checkpoints ("model/" before each name) and foreign files have the same form. */
#ifndef PSGD_WEIGHTS_H
#define PSGD_WEIGHTS_H

#include <stdbool.h>
#include <stdint.h>

#include "shared/base/crypto.h"
#include "shared/job/model_spec.h"
#include "shared/records/tensor_file.h"

/* "layer0.dense.weight": tensor k of the layer with that number in the document. */
void weights_name(char out[TENSOR_NAME], const struct model_spec *m, int layer, int k);

/* Checks that the tensors whose names begin with `prefix` are exactly those of the model, with its shapes,
 * of F32, F16, BF16 or F64, and all values finite as floats. ERR_CONFIG: the message has the tensor, and
 * both shapes. */
int weights_check(const struct tensor_file *f, const char *prefix, const struct model_spec *m, struct err *e);
/* The same without a look at the values. */
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

#endif
