/* diloco -- few exchanges, each a step of Nesterov's momentum by the average change of the workers:
 *     D = (1 / n) sum_k (x_k - x);      u <- mu u + D;      x <- x + lr (D + mu u)
 *
 * Douillard, Feng, Rusu, Chhaparia, Donchev, Kuncoro, Ranzato, Szlam and Shen, "DiLoCo: Distributed
 * Low-Communication Training of Language Models", 2023, Algorithm 1, with its outer optimizer and values; its
 * inner optimizer is AdamW (--gradient-descent adamw). */
#include "codec.h"

struct diloco {
    float lr, mu;
    float *u;
};

static const struct codec_option options[] = {
    CODEC_OPTION(struct diloco, lr, 0.7, 0, 1e3, "learning rate of the outer step"),
    CODEC_OPTION(struct diloco, mu, 0.9, 0, 0.9999, "momentum of the outer step"),
    {0},
};

static int diloco_apply(struct codec *c, const float *const *change)
{
    const struct diloco *d = c->state;

    for (size_t i = 0; i < c->n_params; i++) {
        d->u[i] = d->mu * d->u[i] + change[0][i];
        c->global[i] += d->lr * (change[0][i] + d->mu * d->u[i]);
    }
    return CODEC_GO;
}

static const struct codec_combine diloco = {
    .when = CODEC_EACH_ROUND, .keeps_global = true, .contributes_change = true, .apply = diloco_apply};

CODEC_PLUGIN(.name = "diloco", .source = "Douillard et al. 2023, Algorithm 1",
             .equation = "D = mean_k(x_k - x); u <- mu u + D; x <- x + lr (D + mu u)",
             .state_size = sizeof(struct diloco), .options = options,
             .vectors = CODEC_VECTORS(offsetof(struct diloco, u)), .combine = &diloco,
             .limits = CODEC_NO_ASGD)
