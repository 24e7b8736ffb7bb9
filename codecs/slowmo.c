/* slowmo -- local SGD with a slow momentum on top of the workers' own optimizer:
 *     y = (1 / n) sum_k x_k;      u <- beta u + (x - y) / gamma;      x <- x - alpha gamma u
 * for gamma, the learning rate of the local steps.
 *
 * Wang, Tantia, Ballas and Rabbat, "SlowMo: Improving Communication-Efficient Distributed SGD with Slow
 * Momentum", ICLR 2020, Algorithm 1, with exact averaging. gamma is the mean rate of the local steps, where
 * the paper has one rate in a round. With beta=0 and alpha=1 it is localsgd. */
#include "codec.h"

struct slowmo {
    float alpha, beta;
    float *u;
};

static const struct codec_option options[] = {
    CODEC_OPTION(struct slowmo, alpha, 1, 0, 1e3, "slow learning rate"),
    CODEC_OPTION(struct slowmo, beta, 0.7, 0, 0.9999, "slow momentum"),
    {0},
};

/* A worker that does not take part in the round (--participate) takes no local steps: gamma follows from the
 * others. */
static float slowmo_contribute(struct codec *c, float *const *v)
{
    memcpy(v[0], c->params, c->n_params * sizeof *v[0]);
    c->numbers[0] = c->lr_sum / (float)c->n_local;
    return 1;
}

static int slowmo_apply(struct codec *c, const float *const *mean)
{
    const struct slowmo *s = c->state;
    float gamma = c->numbers[0];

    for (size_t i = 0; gamma > 0 && i < c->n_params; i++) {
        s->u[i] = s->beta * s->u[i] + (c->global[i] - mean[0][i]) / gamma;
        c->global[i] -= s->alpha * gamma * s->u[i];
    }
    return CODEC_GO;
}

static const struct codec_combine slowmo = {.when = CODEC_EACH_ROUND,
                                            .n_numbers = 1,
                                            .keeps_global = true,
                                            .contribute = slowmo_contribute,
                                            .apply = slowmo_apply};

CODEC_PLUGIN(.name = "slowmo", .source = "Wang et al., ICLR 2020, Algorithm 1",
             .equation = "y = mean_k x_k; u <- beta u + (x - y) / gamma; x <- x - alpha gamma u",
             .state_size = sizeof(struct slowmo), .options = options,
             .vectors = CODEC_VECTORS(offsetof(struct slowmo, u)), .combine = &slowmo,
             .limits = CODEC_NO_ASGD)
