/* fednova -- fedavg of workers that take different numbers of local steps: each contributes its change per
 * step, and the mean change is scaled by the mean number of steps:
 *     d_k = (x - x_k) / tau_k;      x <- x - (sum_k p_k tau_k) sum_k p_k d_k,      p_k = n_k / n
 *
 * Wang, Liu, Liang, Joshi and Poor, "Tackling the Objective Inconsistency Problem in Heterogeneous Federated
 * Optimization", NeurIPS 2020, eq. 6 for local SGD without momentum, where |a_k|_1 = tau_k. In synchronous
 * jobs psgd's workers take the same number of steps, and fednova is fedavg. */
#include "codec.h"

static float fednova_contribute(struct codec *c, float *const *v)
{
    float part = 1 / (float)c->n_local;

    for (size_t i = 0; i < c->n_params; i++)
        v[0][i] = part * (c->global[i] - c->params[i]);
    c->numbers[0] = (float)c->n_local;
    return c->samples;
}

static int fednova_apply(struct codec *c, const float *const *mean)
{
    for (size_t i = 0; i < c->n_params; i++)
        c->global[i] -= c->numbers[0] * mean[0][i];
    return CODEC_GO;
}

static const struct codec_combine fednova = {.when = CODEC_EACH_ROUND,
                                             .n_numbers = 1,
                                             .keeps_global = true,
                                             .contribute = fednova_contribute,
                                             .apply = fednova_apply};

CODEC_PLUGIN(.name = "fednova", .source = "Wang et al., NeurIPS 2020, eq. 6",
             .equation = "x <- x - (sum_k p_k tau_k) sum_k p_k (x - x_k) / tau_k", .combine = &fednova,
             .limits = CODEC_NO_ASGD)
