/* codec_layer -- a tensor of the model as codecs see it (codecs/codec_events.h). */
#ifndef PSGD_CODEC_LAYER_H
#define PSGD_CODEC_LAYER_H

#include <stdbool.h>
#include <stddef.h>

#include "codecs/codec_events.h"

/* Returns the layer of a whole tensor, whose name must outlive it. A number is a vector of one value, and of
 * a tensor of more than four dimensions the last ones are multiplied. */
struct codec_layer codec_layer_of(const char *name, const size_t *shape, int n_dims, size_t offset,
                                  bool is_statistic);

#endif
