/* model_table -- a model's layers, for people and for programs. */
#ifndef PSGD_SUBMIT_MODEL_TABLE_H
#define PSGD_SUBMIT_MODEL_TABLE_H

#include <jansson.h>

#include "shared/model_spec.h"

/* On stdout: name, input and loss, a row for each layer, and how many parameters there are. */
void model_table_print(const struct model_spec *m);

/* An array of the layers: place, kind, shapes in and out, parameters, tensors. */
json_t *model_table_json(const struct model_spec *m);

#endif
