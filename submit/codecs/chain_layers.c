#include "submit/codecs/chain_layers.h"

#include <string.h>

static bool is_in_model(const struct model_spec *m, const char *name)
{
    for (int i = 0; i < m->n_tensors; i++)
        if (chain_name_fits(name, m->tensors[i].name))
            return true;
    return false;
}

int chain_layers_check(const struct chain_list *l, const struct model_spec *m, struct err *e)
{
    if (!l->is_by_layer)
        return 0;
    for (int i = 0; i < l->n; i++)
        if (strcmp(l->of[i].name, "*") != 0 && !is_in_model(m, l->of[i].name)) {
            err_set(e, ERR_CONFIG, "model \"%s\" has no layer or tensor \"%s\" with parameters", m->name,
                    l->of[i].name);
            return m->has_trainer
                       ? err_hint(e, "Its tensors have their names in the program, as %s.",
                                  m->tensors[0].name)
                       : err_hint(e, "`job_submit model inspect %s` numbers the layers, from layer0 on.",
                                  m->name);
        }
    for (int i = 0; i < m->n_tensors; i++)
        if (chain_list_find(l, m->tensors[i].name) < 0)
            return err_set(e, ERR_CONFIG, "the list has no entry for %s, and none for *", m->tensors[i].name);
    return 0;
}
