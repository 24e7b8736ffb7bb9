/* onnx -- a model with its weights as an ONNX file: IR version 7, operator set 13.
 *
 * Input "input" (N, ...) is what psgd's network takes: floats, images channels last, or tokens as int32, 0
 * behind the end of a text. Output "output" (N, ...) is what its last layer makes, before the loss: logits,
 * where the loss is a cross entropy. Initialisers have the tensors' names and values; the weights of conv2d,
 * lstm and gru are transposed to ONNX's shapes, whose gates stand in other orders (i o f c; z r h).
 * Source: the onnx.proto and Operators.md of ONNX 1.8. */
#ifndef PSGD_SUBMIT_ONNX_H
#define PSGD_SUBMIT_ONNX_H

#include "shared/model_spec.h"
#include "shared/tensor_file.h"

/* `f` was taken by weights_check(f, prefix, m). Replaces `path`. ERR_CONFIG: more than the 2 GiB that a
 * protocol buffer may have. ERR_IO, ERR_NOSPACE, ERR_NOMEM. */
int onnx_write(const char *path, const struct model_spec *m, const struct tensor_file *f, const char *prefix,
               struct err *e);

#endif
