/* data_open -- opens a job's data set, and checks that its model fits it. */
#ifndef PSGD_SUBMIT_DATA_OPEN_H
#define PSGD_SUBMIT_DATA_OPEN_H

#include "shared/job/model_spec.h"
#include "submit/data/data_sets.h"

/* `name` as in dataset_open(), `chosen` the value of --data; "": none. ERR_USAGE: a set that is drawn has
 * no file; else as dataset_open() and model_fit(). After an error *d, which was empty, is
 * still empty, or has the data that the model does not fit: dataset_clear() in any case. `use`: as in
 * dataset_open_as(). is_trained: there is no choice of models, so that the hint names none that fits. */
int data_open(struct dataset *d, const char *name, const char *chosen, const struct model_spec *m,
              const struct data_use *use, bool is_trained, struct err *e);

#endif
