/* data_open -- opens a job's data set, and checks that its model fits it. */
#ifndef PSGD_SUBMIT_DATA_OPEN_H
#define PSGD_SUBMIT_DATA_OPEN_H

#include "shared/job/model_spec.h"
#include "submit/data/data_sets.h"

/* Opens the data set `name` (dataset_open()) at `chosen`, the value of --data; "": where it was downloaded
 * to. `use`: as in dataset_open_as(). is_trained: the model was chosen before, so the hint of an error
 * suggests no other one. ERR_USAGE: a set that is generated has no file; else as dataset_open() and
 * data_fits_model(). *d must be empty; after an error it is still empty, or has the data that the model does
 * not fit: dataset_clear() in any case. */
int data_open(struct dataset *d, const char *name, const char *chosen, const struct model_spec *m,
              const struct data_use *use, bool is_trained, struct err *e);

/* ERR_CONFIG: the model does not fit the samples, their labels or targets. */
int data_fits_model(const struct model_spec *m, const struct dataset *d, struct err *e);
/* Sets the hint to a small model that fits, and how it is used. Returns e->code. */
int data_hint_model(const struct dataset *d, struct err *e);

#endif
