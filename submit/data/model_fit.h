/* model_fit -- does a model suit a data set? */
#ifndef PSGD_MODEL_FIT_H
#define PSGD_MODEL_FIT_H

#include "shared/base/err.h"
#include "shared/job/model_spec.h"
#include "submit/data/dataset.h"

/* ERR_CONFIG: the model does not fit the samples, their labels or targets. */
int model_fit(const struct model_spec *m, const struct dataset *d, struct err *e);
/* Hint: a small model that fits, and how it is used. Returns e->code. */
int model_fit_hint(const struct dataset *d, struct err *e);

#endif
