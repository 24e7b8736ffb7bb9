#include "submit/stages/gpt2_names.h"

#include <stdio.h>
#include <string.h>

static const char prefix[] = "transformer.";
/* In the model's order: before the blocks, of each block, behind them. */
static const char *const first[] = {"wte.weight", "wpe.weight"};
static const char *const of_block[] = {"ln_1.weight",      "ln_1.bias",          "attn.c_attn.weight",
                                       "attn.c_attn.bias", "attn.c_proj.weight", "attn.c_proj.bias",
                                       "ln_2.weight",      "ln_2.bias",          "mlp.c_fc.weight",
                                       "mlp.c_fc.bias",    "mlp.c_proj.weight",  "mlp.c_proj.bias"};
static const char *const last[] = {"ln_f.weight", "ln_f.bias"};

enum { N_FIRST = 2, N_OF_BLOCK = 12, N_LAST = 2 };

static int find_name(const char *name, const char *const *names, int n)
{
    for (int i = 0; i < n; i++)
        if (strcmp(name, names[i]) == 0)
            return i;
    return -1;
}

/* Returns which of the model's tensors it is; -1: none. */
static int number_of(const char *name, int n_blocks)
{
    int k = find_name(name, first, N_FIRST), block, end = 0;

    if (k >= 0)
        return k;
    if ((k = find_name(name, last, N_LAST)) >= 0)
        return N_FIRST + n_blocks * N_OF_BLOCK + k;
    if (sscanf(name, "h.%4d.%n", &block, &end) != 1 || end == 0 || block < 0 || block >= n_blocks)
        return -1;
    k = find_name(name + end, of_block, N_OF_BLOCK);
    return k < 0 ? -1 : N_FIRST + block * N_OF_BLOCK + k;
}

/* "h.0.attn.bias", "h.0.attn.masked_bias", "lm_head.weight" */
static bool is_no_weight(const char *name)
{
    const char *mask = strstr(name, ".attn.");

    return strcmp(name, "lm_head.weight") == 0 ||
           (mask && (strcmp(mask, ".attn.bias") == 0 || strcmp(mask, ".attn.masked_bias") == 0));
}

static bool replace_name(struct tensor_view *t, void *owner)
{
    const struct model_spec *m = owner;
    const char *name = t->name + (strncmp(t->name, prefix, sizeof prefix - 1) == 0 ? sizeof prefix - 1 : 0);
    int k = number_of(name, (m->n_tensors - N_FIRST - N_LAST) / N_OF_BLOCK);

    if (is_no_weight(name))
        return false;
    if (k >= 0 && k < m->n_tensors)
        memcpy(t->name, m->tensors[k].name, sizeof m->tensors[k].name);
    return true;
}

void gpt2_names_replace(struct tensor_file *f, const struct model_spec *m)
{
    if (!m->has_trainer &&
        (tensor_file_find(f, "wte.weight") || tensor_file_find(f, "transformer.wte.weight")))
        tensor_file_rename(f, replace_name, (void *)(uintptr_t)m);
}
