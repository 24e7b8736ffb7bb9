#include "runner/core/step_optimizer.h"

#include <stdlib.h>
#include <string.h>

/* The place of a tensor's layer in the model's document, from a name like "layer3.dense.weight", in a
 * residual block "layer3.1.dense.weight". */
struct layer_place {
    int layer, part;  /* part -1: outside of blocks */
    const char *kind; /* "dense.weight" */
};

static bool find_place(struct layer_place *p, const char *name)
{
    char *end;

    *p = (struct layer_place){.part = -1};
    if (strncmp(name, "layer", 5) != 0)
        return false;
    p->layer = (int)strtol(name + 5, &end, 10);
    if (*end == '.' && end[1] >= '0' && end[1] <= '9')
        p->part = (int)strtol(end + 1, &end, 10);
    p->kind = *end == '.' ? end + 1 : end;
    return true;
}

static bool is_embedding(const struct layer_place *p)
{
    static const char *const kinds[] = {"embedding.", "position_embedding."};

    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strncmp(p->kind, kinds[i], strlen(kinds[i])) == 0)
            return true;
    return false;
}

/* Returns the number of the layer whose matrix is the head: the last one that has a matrix, unless it is in a
 * residual block; -1: none. */
static int find_head(const struct codec_layer *layers, int n_layers)
{
    struct layer_place last = {.layer = -1, .part = -1}, p;

    for (int i = 0; i < n_layers; i++)
        if (layers[i].n_dims >= 2 && find_place(&p, layers[i].name) && p.layer >= last.layer)
            last = p;
    return last.part < 0 ? last.layer : -1;
}

/* Is it one of the matrices that muon updates (shared/job/optimizer_kind.h)? */
static bool is_hidden(const struct codec_layer *l, int head)
{
    struct layer_place p;

    return l->n_dims >= 2 && find_place(&p, l->name) && !is_embedding(&p) && p.layer != head;
}

/* Lists the parts of parameters [first, first + n); neighbors that are treated alike are one part.
 * ERR_CONFIG: they begin or end in a matrix that is updated as a whole. */
static int list_parts(struct optimizer_part *parts, size_t *n_parts, const struct settings *set,
                      const struct codec_layer *layers, int n_layers, size_t first, size_t n, struct err *e)
{
    const int head = find_head(layers, n_layers);
    const size_t end = first + n;

    for (int i = 0; i < n_layers; i++) {
        const struct codec_layer *l = &layers[i];
        size_t from = l->offset > first ? l->offset : first;
        size_t to = l->offset + l->n < end ? l->offset + l->n : end;
        bool decays = set->decay_of == DECAY_OF_ALL || l->n_dims >= 2;

        if (from >= to)
            continue;
        if (set->optimizer == OPTIMIZER_MUON && is_hidden(l, head)) {
            size_t cols = l->shape[l->n_dims - 1];

            if (to - from < l->n) {
                err_set(e, ERR_CONFIG, "muon updates %s as a whole, and this server has a part of it",
                        l->name);
                return err_hint(e, "--placement round_robin gives whole tensors to the servers.");
            }
            parts[(*n_parts)++] = (struct optimizer_part){
                .n = l->n, .decays = true, .rows = l->n / cols, .cols = cols};
            continue;
        }
        if (*n_parts == 0 || parts[*n_parts - 1].decays != decays || parts[*n_parts - 1].rows > 0)
            parts[(*n_parts)++] = (struct optimizer_part){.decays = decays};
        parts[*n_parts - 1].n += to - from;
    }
    return 0;
}

int step_optimizer_new(struct optimizer **out, const struct settings *set, const struct codec_layer *layers,
                       int n_layers, size_t first, size_t n, struct err *e)
{
    struct optimizer_part *parts = calloc((size_t)n_layers + 1, sizeof *parts);
    struct optimizer_config how = {
        .kind = set->optimizer,
        .momentum = (float)set->momentum,
        .weight_decay = (float)set->weight_decay,
        .has_parameters = true,
        .beta1 = set->beta1,
        .beta2 = set->beta2,
        .epsilon = set->epsilon,
        .adamw_share = set->adamw_rate / set->learn_rate,
        .parts = parts,
    };
    int rc = parts ? list_parts(parts, &how.n_parts, set, layers, n_layers, first, n, e)
                   : err_set(e, ERR_NOMEM, "no memory for a list of %d tensors", n_layers);

    if (rc == 0)
        rc = optimizer_new(out, &how, n, e);
    free(parts);
    return rc;
}
