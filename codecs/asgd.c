/* asgd -- workers train on their own; after each `every` local steps a worker adds the change of its weights
 * since its last exchange to a common vector, and continues from that:
 *     x <- x + (w - w_old);      w <- x;      w_old <- x
 *
 * The rule of this name in platoon (MILA, 2016: param_sync/asgd.py), where a worker locks the shared vector
 * meanwhile; the update of Hogwild (Niu et al., NIPS 2011) with many steps in one. In ssgd the changes
 * of all workers are added, as platoon's SUM does: with n workers that is n times the mean's step, which
 * overshoots where `every` is long. */
#include "codec_events.h"

static float asgd_contribute(struct codec *c, float *const *v)
{
    for (size_t i = 0; i < c->n_params; i++)
        v[0][i] = c->params[i] - c->global[i];
    return 1;
}

static int asgd_apply(struct codec *c, const float *const *sum)
{
    for (size_t i = 0; i < c->n_params; i++)
        c->global[i] += sum[0][i];
    return CODEC_GO;
}

static const struct codec_combine asgd = {.when = CODEC_EACH_ROUND,
                                          .reduction = CODEC_SUM,
                                          .keeps_global = true,
                                          .contribute = asgd_contribute,
                                          .apply = asgd_apply};

CODEC_PLUGIN(.name = "asgd", .source = "platoon 0.6.1, param_sync; Niu et al., NIPS 2011",
             .equation = "x <- x + sum_k (w_k - x); w_k <- x; asgd: x <- x + (w - w_old)", .combine = &asgd,
             .more = CODEC_MORE(.compression = CODEC_LOSSY))
