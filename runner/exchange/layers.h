/* layers -- the tensors of a model as codecs see them (struct codec_layer), in order of the parameters. */
#ifndef PSGD_EXCHANGE_LAYERS_H
#define PSGD_EXCHANGE_LAYERS_H

#include "codecs/codec_events.h"
#include "shared/base/err.h"
#include "shared/records/tensor_file.h"

/* *out: the n tensors, sorted by their offset in the one vector that they all lie in and cover; freed by the
 * caller. A model lists each layer's tensors together, but its running statistics lie behind all trained
 * parameters. ERR_NOMEM. */
int layers_list(struct codec_layer **out, const struct tensor_view *t, size_t n, struct err *e);

#endif
