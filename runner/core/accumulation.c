#include "runner/core/accumulation.h"

#include <stdlib.h>

#include "runner/base/vector.h"

int accumulation_open(struct accumulation *a, const struct settings *set, const struct model_spec *m,
                      struct err *e)
{
    *a = (struct accumulation){.n_passes = set->accumulate,
                               .batch = set->batch_size,
                               .n_in = (size_t)m->n_in,
                               .n_labels = (size_t)model_spec_labels(m),
                               .n_targets = (size_t)m->n_out,
                               .n_params = m->n_params};
    if (a->n_passes > 1 && !(a->sum = malloc(a->n_params * sizeof *a->sum)))
        return err_set(e, ERR_NOMEM, "no memory for the gradient of several passes");
    return 0;
}

void accumulation_close(struct accumulation *a)
{
    free(a->sum);
    *a = (struct accumulation){0};
}

/* The samples of pass k. */
static struct net_batch pass_of(const struct accumulation *a, const struct net_batch *b, size_t k)
{
    size_t first = k * (size_t)a->batch;
    struct net_batch pass = *b;

    pass.x = b->x + first * a->n_in;
    pass.truth.labels = b->truth.labels ? b->truth.labels + first * a->n_labels : NULL;
    pass.truth.targets = b->truth.targets ? b->truth.targets + first * a->n_targets : NULL;
    pass.stream = b->stream * (uint64_t)a->n_passes + k;
    return pass;
}

void accumulation_train(struct accumulation *a, struct net *net, const struct net_batch *b,
                        struct net_score *score)
{
    const float part = 1.0f / (float)a->n_passes;

    if (a->n_passes == 1) {
        net_train(net, b, score);
        return;
    }
    for (int k = 0; k < a->n_passes; k++) {
        struct net_batch pass = pass_of(a, b, (size_t)k);

        net_train(net, &pass, score);
        (k > 0 ? vector_add : vector_scale)(a->sum, net_grads(net), part, a->n_params);
    }
    vector_copy(net_grads(net), a->sum, a->n_params);
}
