/* chain_layers -- a list of chains by layer, compared with the layers of the job's model. */
#ifndef PSGD_SUBMIT_CHAIN_LAYERS_H
#define PSGD_SUBMIT_CHAIN_LAYERS_H

#include "codecs/compress/chain_list.h"
#include "shared/job/model_spec.h"

/* Checks that a list has a chain for each tensor of the model, and names no other tensor or layer.
 * ERR_CONFIG. */
int chain_layers_check(const struct chain_list *l, const struct model_spec *m, struct err *e);

#endif
