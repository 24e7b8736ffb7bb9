/* fedavgm -- fedavg with momentum on the average change of a round:
 *     v <- beta v + sum_k (n_k / n) (w - w_k);      w <- w - lr v
 *
 * Hsu, Qi and Brown, "Measuring the Effects of Non-Identical Data Distribution for Federated Visual
 * Classification", 2019, section 4.3; its server learning rate is 1. With beta=0 and lr=1 it is fedavg. */
#include "codec.h"

struct fedavgm {
    float beta, lr;
    float *v;
};

static const struct codec_option options[] = {
    CODEC_OPTION(struct fedavgm, beta, 0.9, 0, 0.9999, "momentum of the global step"),
    CODEC_OPTION(struct fedavgm, lr, 1, 0, 1e3, "learning rate of the global step"),
    {0},
};

static int fedavgm_apply(struct codec *c, const float *const *mean)
{
    const struct fedavgm *f = c->state;

    for (size_t i = 0; i < c->n_params; i++) {
        f->v[i] = f->beta * f->v[i] - mean[0][i];
        c->global[i] -= f->lr * f->v[i];
    }
    return CODEC_GO;
}

static const struct codec_combine fedavgm = {
    .when = CODEC_EACH_ROUND, .keeps_global = true, .contributes_change = true, .apply = fedavgm_apply};

CODEC_PLUGIN(.name = "fedavgm", .source = "Hsu, Qi and Brown 2019, section 4.3",
             .equation = "v <- beta v + sum_k (n_k / n) (w - w_k); w <- w - lr v",
             .state_size = sizeof(struct fedavgm), .options = options,
             .vectors = CODEC_VECTORS(offsetof(struct fedavgm, v)), .combine = &fedavgm,
             .limits = CODEC_NO_ASGD)
