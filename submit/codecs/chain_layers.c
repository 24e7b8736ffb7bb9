#include "submit/codecs/chain_layers.h"

#include <string.h>

#include "shared/records/weights.h"

/* Is this the name of a tensor of the model, or of a layer with tensors? */
static bool is_in_model(const struct model_spec *m, const char *name)
{
    char tensor[TENSOR_NAME];
    size_t n = strlen(name);

    for (int i = 0; i < m->n_layers; i++)
        for (int k = 0; k < m->layers[i].n_tensors; k++) {
            weights_name(tensor, m, i, k);
            if (strncmp(tensor, name, n) == 0 && (!tensor[n] || n == strcspn(tensor, ".")))
                return true;
        }
    return false;
}

int chain_layers_check(const struct chain_list *l, const struct model_spec *m, struct err *e)
{
    char tensor[TENSOR_NAME];

    if (!l->is_by_layer)
        return 0;
    for (int i = 0; i < l->n; i++)
        if (strcmp(l->of[i].name, "*") != 0 && !is_in_model(m, l->of[i].name)) {
            err_set(e, ERR_CONFIG, "model \"%s\" has no layer or tensor \"%s\" with parameters", m->name,
                    l->of[i].name);
            return err_hint(e, "`job_submit model inspect %s` numbers the layers, from layer0 on.", m->name);
        }
    for (int i = 0; i < m->n_layers; i++)
        for (int k = 0; k < m->layers[i].n_tensors; k++) {
            weights_name(tensor, m, i, k);
            if (chain_list_find(l, tensor) < 0)
                return err_set(e, ERR_CONFIG, "the list has no entry for %s, and none for *", tensor);
        }
    return 0;
}
