/* model_file -- the model that a file of weights is of: the document in its metadata. */
#ifndef PSGD_SUBMIT_MODEL_FILE_H
#define PSGD_SUBMIT_MODEL_FILE_H

#include "shared/job/model_spec.h"
#include "shared/records/tensor_file.h"

/* Parses a model's document; the caller frees *out. `what` names it in messages. ERR_CONFIG. */
int model_file_parse(struct model_spec **out, const char *text, size_t len, const char *what, struct err *e);

/* *out: the model of a file of weights or of a checkpoint; the caller frees it. ERR_CONFIG: it has no
 * document, or the tensors are not the parameters of that model. */
int model_file_arch(struct model_spec **out, const struct tensor_file *f, struct err *e);

#endif
