/* fedprox -- fedavg whose local steps are drawn back to the last average w, so that workers with different
 * data drift apart less:
 *     locally:  g <- g + mu (w_k - w);      then  w <- sum_k (n_k / n) w_k
 *
 * Li, Sahu, Zaheer, Sanjabi, Talwalkar and Smith, "Federated Optimization in Heterogeneous Networks", MLSys
 * 2020, Algorithm 2: the proximal term (mu / 2) |w_k - w|^2 of each local objective, by its gradient.
 * Deviations: weighted by samples, as fedavg, where the paper draws workers by these weights; every worker
 * takes the same number of local steps. With mu=0 it is fedavg. */
#include "codec.h"

struct fedprox {
    float mu;
};

static const struct codec_option options[] = {
    CODEC_OPTION(struct fedprox, mu, 0.01, 0, 1e6, "strength of the pull to the last average"),
    {0},
};

static int fedprox_on_gradient(struct codec *c)
{
    const struct fedprox *f = c->state;

    for (size_t i = 0; i < c->n_params; i++)
        c->grads[i] += f->mu * (c->params[i] - c->global[i]);
    return CODEC_GO;
}

static const struct codec_combine fedprox = {
    .when = CODEC_EACH_ROUND, .keeps_global = true, .on_gradient = fedprox_on_gradient};

CODEC_PLUGIN(.name = "fedprox", .source = "Li et al., MLSys 2020, Algorithm 2",
             .equation = "g <- g + mu (w_k - w); w <- sum_k (n_k / n) w_k",
             .state_size = sizeof(struct fedprox), .options = options, .combine = &fedprox)
