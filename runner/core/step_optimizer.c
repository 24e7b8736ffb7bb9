#include "runner/core/step_optimizer.h"

#include <stdlib.h>

/* Adds the parts of parameters [first, first + n); neighbors that are treated alike are one part. */
static size_t list_parts(struct optimizer_part *parts, const struct settings *set,
                         const struct codec_layer *layers, int n_layers, size_t first, size_t n)
{
    size_t n_parts = 0, end = first + n;

    for (int i = 0; i < n_layers; i++) {
        const struct codec_layer *l = &layers[i];
        size_t from = l->offset > first ? l->offset : first;
        size_t to = l->offset + l->n < end ? l->offset + l->n : end;
        bool decays = set->decay_of == DECAY_OF_ALL || l->n_dims >= 2;

        if (from >= to)
            continue;
        if (n_parts == 0 || parts[n_parts - 1].decays != decays)
            parts[n_parts++] = (struct optimizer_part){.decays = decays};
        parts[n_parts - 1].n += to - from;
    }
    return n_parts;
}

int step_optimizer_new(struct optimizer **out, const struct settings *set, const struct codec_layer *layers,
                       int n_layers, size_t first, size_t n, struct err *e)
{
    struct optimizer_part *parts = calloc((size_t)n_layers + 1, sizeof *parts);
    const struct optimizer_config how = {
        .kind = set->optimizer,
        .momentum = (float)set->momentum,
        .weight_decay = (float)set->weight_decay,
        .beta1 = set->beta1,
        .beta2 = set->beta2,
        .epsilon = set->epsilon,
        .parts = parts,
        .n_parts = parts ? list_parts(parts, set, layers, n_layers, first, n) : 0,
    };
    int rc = parts ? optimizer_new(out, &how, n, e)
                   : err_set(e, ERR_NOMEM, "no memory for a list of %d tensors", n_layers);

    free(parts);
    return rc;
}
