#include "submit/verbs/model_table.h"

#include <stdio.h>

#include "shared/base/json.h"
#include "shared/records/weights.h"

static size_t count_params(const struct layer_spec *l)
{
    size_t n = 0;

    for (int k = 0; k < l->n_tensors; k++)
        n += tensor_spec_count(&l->tensors[k]);
    return n;
}

void model_table_print(const struct model_spec *m)
{
    char in[48], out[48];

    printf("Model %s: input %s, loss %s\n\n", m->name, shape_text(in, &m->in), loss_kind_name(m->loss));
    printf("%5s  %-14s  %-18s  %-18s  %12s\n", "layer", "kind", "in", "out", "parameters");
    for (int i = 0; i < m->n_layers; i++) {
        const struct layer_spec *l = &m->layers[i];

        printf("%5d  %-14s  %-18s  %-18s  %12zu\n", i, layer_kind_name(l->kind), shape_text(in, &l->in),
               shape_text(out, &l->out), count_params(l));
    }
    printf("\n%zu parameter%s", m->n_params, m->n_params == 1 ? "" : "s");
    if (m->n_trained != m->n_params)
        printf(", %zu of them trained, the rest running statistics", m->n_trained);
    printf("\n");
}

static json_t *layer_json(const struct model_spec *m, int i)
{
    const struct layer_spec *l = &m->layers[i];
    json_t *tensors = json_array();
    char in[48], out[48], name[TENSOR_NAME];

    for (int k = 0; k < l->n_tensors; k++) {
        const struct tensor_spec *t = &l->tensors[k];

        weights_name(name, m, i, k);
        json_array_append_new(tensors, json_pack("{s:s, s:o, s:b}", "name", name, "shape",
                                                 json_sizes(t->shape, (size_t)t->n_dims), "is_state",
                                                 (int)t->is_state));
    }
    return json_pack("{s:i, s:s, s:s, s:s, s:I, s:o}", "layer", i, "kind", layer_kind_name(l->kind), "in",
                     shape_text(in, &l->in), "out", shape_text(out, &l->out), "n_params",
                     (json_int_t)count_params(l), "tensors", tensors);
}

json_t *model_table_json(const struct model_spec *m)
{
    json_t *layers = json_array();

    for (int i = 0; i < m->n_layers; i++)
        json_array_append_new(layers, layer_json(m, i));
    return layers;
}
