/* scaffold -- fedavg whose local steps are corrected by control variates, which estimate how much a worker's
 * gradient differs from that of all:
 *     locally:    g <- g - c_k + c
 *     worker k:   c_k+ = c_k - c + (x - y_k) / (K eta);   contributes y_k - x and c_k+ - c_k
 *     all:        x <- x + lr mean_k(y_k - x);            c <- c + (s / n) mean_k(c_k+ - c_k)
 * for y_k, the weights of worker k after K local steps of rate eta, and s contributions of n workers.
 *
 * Karimireddy, Kale, Mohri, Reddi, Stich and Suresh, "SCAFFOLD: Stochastic Controlled Averaging for Federated
 * Learning", ICML 2020, Algorithm 1 with option II. K eta is the sum of the rates of the local steps. The
 * paper's local steps are plain SGD: with another optimizer c_k is an estimate of its steps, not of the
 * gradient. */
#include "codec.h"

struct scaffold {
    float lr;
    float *all, *own; /* c, c_k */
};

static const struct codec_option options[] = {
    CODEC_OPTION(struct scaffold, lr, 1, 0, 1e3, "learning rate of the global step"),
    {0},
};

static int scaffold_on_gradient(struct codec *c)
{
    const struct scaffold *s = c->state;

    for (size_t i = 0; i < c->n_params; i++)
        c->grads[i] += s->all[i] - s->own[i];
    return CODEC_GO;
}

static float scaffold_contribute(struct codec *c, float *const *v)
{
    const struct scaffold *s = c->state;

    for (size_t i = 0; i < c->n_params; i++) {
        v[0][i] = c->params[i] - c->global[i];
        v[1][i] = -v[0][i] / c->lr_sum - s->all[i];
        s->own[i] += v[1][i];
    }
    return 1;
}

static int scaffold_apply(struct codec *c, const float *const *mean)
{
    const struct scaffold *s = c->state;
    float share = (float)c->n_contributions / (float)c->n_workers;

    for (size_t i = 0; i < c->n_params; i++) {
        c->global[i] += s->lr * mean[0][i];
        s->all[i] += share * mean[1][i];
    }
    return CODEC_GO;
}

static const struct codec_combine scaffold = {.when = CODEC_EACH_ROUND,
                                              .n_vectors = 2,
                                              .keeps_global = true,
                                              .on_gradient = scaffold_on_gradient,
                                              .contribute = scaffold_contribute,
                                              .apply = scaffold_apply};

CODEC_PLUGIN(.name = "scaffold", .source = "Karimireddy et al., ICML 2020, Algorithm 1, option II",
             .equation = "g <- g - c_k + c; x <- x + lr mean_k(y_k - x); c <- c + (s / n) mean_k(c_k+ - c_k)",
             .state_size = sizeof(struct scaffold), .options = options,
             .vectors = CODEC_VECTORS(offsetof(struct scaffold, all), offsetof(struct scaffold, own)),
             .combine = &scaffold, .limits = CODEC_NO_ASGD | CODEC_NO_OVERLAP)
