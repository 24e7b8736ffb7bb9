/* step_optimizer -- the optimizer of a job's settings, for the parameters that one node updates. */
#ifndef PSGD_STEP_OPTIMIZER_H
#define PSGD_STEP_OPTIMIZER_H

#include "nn/optimizer.h"
#include "shared/job/settings.h"
#include "shared/plugin/codec_layer.h"

/* For the trained parameters [first, first + n) of the model. `layers` (n_layers): all of its tensors, sorted
 * by their offsets; needed in this call only. ERR_NOMEM; ERR_CONFIG: muon, and
 * the range has a part of a hidden matrix. */
int step_optimizer_new(struct optimizer **out, const struct settings *set, const struct codec_layer *layers,
                       int n_layers, size_t first, size_t n, struct err *e);

#endif
