/* fedpaq -- fedavg by differences: after a round of local steps, all nodes take the sample-weighted average
 * of the workers' changes since the last common weights:
 *     w <- w_0 + sum_k (n_k / n) Q(w_k - w_0),      Q: the compression set by --compress
 *
 * Reisizadeh et al., "FedPAQ: A Communication-Efficient Federated Learning Method with Periodic Averaging
 * and Quantization", AISTATS 2020, Algorithm 1, with every device in every round (r = n). Deviations: the
 * paper's average has equal weights; its Q is unbiased, a biased Q here should have ef=true; servers may
 * compress the average, too. In asgd, which the paper does not treat, a server moves by 1 / n_workers of
 * each difference as it arrives. */
#include "codec_events.h"

static int fedpaq_apply(struct codec *c, const float *const *mean)
{
    float part = c->is_sync ? 1 : 1 / (float)c->n_workers;

    for (size_t i = 0; i < c->n_params; i++)
        c->global[i] += part * mean[0][i];
    return CODEC_GO;
}

static const struct codec_combine fedpaq = {
    .when = CODEC_EACH_ROUND, .keeps_global = true, .contributes_change = true, .apply = fedpaq_apply};

CODEC_PLUGIN(.name = "fedpaq", .source = "Reisizadeh et al., AISTATS 2020, Algorithm 1",
             .equation = "w <- w_0 + sum_k (n_k / n) Q(w_k - w_0)", .combine = &fedpaq,
             .more = CODEC_MORE(.result = CODEC_MEAN_OF_PARAMETERS))
