/* model_table -- a model's layers as a table and as JSON. */
#ifndef PSGD_SUBMIT_MODEL_TABLE_H
#define PSGD_SUBMIT_MODEL_TABLE_H

#include <jansson.h>

#include "shared/job/model_spec.h"

/* Prints name, input and loss on stdout, a row per layer, and the number of parameters. */
void model_table_print(const struct model_spec *m);

/* An array of the layers: index, kind, shapes in and out, parameters, tensors. */
json_t *model_table_json(const struct model_spec *m);

#endif
