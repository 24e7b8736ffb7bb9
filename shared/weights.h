/* weights -- a model's parameters in a safetensors file: which tensors there must be, and whether they are
 * there. Models, checkpoints ("model/" in front of each name) and files from elsewhere are held to the
 * same. */
#ifndef PSGD_WEIGHTS_H
#define PSGD_WEIGHTS_H

#include "shared/model_spec.h"
#include "shared/tensor_file.h"

/* "layer0.dense.weight": tensor k of the layer with that number in the document. */
void weights_name(char out[TENSOR_NAME], const struct model_spec *m, int layer, int k);

/* Are the tensors whose name begins with `prefix` those of the model, neither more nor fewer, in its shapes,
 * of F32, F16, BF16 or F64, all values finite as floats? ERR_CONFIG: names the tensor, and both shapes. */
int weights_check(const struct tensor_file *f, const char *prefix, const struct model_spec *m, struct err *e);

/* The tensor behind prefix and name, NULL where it is not there. */
const struct tensor_view *weights_find(const struct tensor_file *f, const char *prefix, const char *name);
/* Its values as floats; F32 bit by bit. */
void weights_floats(float *out, const struct tensor_view *t);

#endif
