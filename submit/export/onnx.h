/* onnx -- writes a model with its weights as an ONNX file: IR version 7, operator set 13.
 *
 * Input "input" (N, ...) is the input of psgd's network: floats, images channels last, or tokens as int32,
 * with 0 after the end of a text. Output "output" (N, ...) is the output of the last layer, before the
 * loss: logits, where the loss is a cross entropy. Initializers have the names and values of the tensors;
 * the weights of conv2d, lstm and gru are transposed to the shapes of ONNX, with its order of gates (i o f
 * c; z r h). The preprocessing record of the weights is in metadata_props, under its name. Source: the
 * onnx.proto and Operators.md of ONNX 1.8. */
#ifndef PSGD_SUBMIT_ONNX_H
#define PSGD_SUBMIT_ONNX_H

#include "shared/job/model_spec.h"
#include "shared/records/tensor_file.h"

/* `f` has passed weights_check(f, prefix, m). Replaces `path`. ERR_CONFIG: more than 2 GiB, the maximum of
 * a protocol buffer. ERR_IO, ERR_NOSPACE, ERR_NOMEM. */
int onnx_write(const char *path, const struct model_spec *m, const struct tensor_file *f, const char *prefix,
               struct err *e);

#endif
