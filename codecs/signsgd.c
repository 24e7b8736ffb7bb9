/* signsgd -- the workers vote on the sign of each component of the gradient, and the majority is the update:
 *     g <- sign(sum_k sign(g_k))
 *
 * Bernstein, Zhao, Azizzadenesheli and Anandkumar, "signSGD with Majority Vote is Communication Efficient and
 * Fault Tolerant", ICLR 2019, Algorithm 1. A tie, and a component that is 0, is no update. The paper's
 * workers vote on their momentum (Signum); here the job's optimizer gets the sign, with the momentum that it
 * has. The vote travels as floats: --compress onebit makes it one bit (0 as +1). */
#include "codec.h"

static float sign(float x)
{
    return (float)((x > 0) - (x < 0));
}

static float signsgd_contribute(struct codec *c, float *const *v)
{
    for (size_t i = 0; i < c->n_params; i++)
        v[0][i] = sign(c->grads[i]);
    return 1;
}

static int signsgd_apply(struct codec *c, const float *const *mean)
{
    for (size_t i = 0; i < c->n_params; i++)
        c->grads[i] = sign(mean[0][i]);
    return CODEC_GO;
}

static const struct codec_combine signsgd = {
    .when = CODEC_EACH_STEP, .contribute = signsgd_contribute, .apply = signsgd_apply};

CODEC_PLUGIN(.name = "signsgd", .source = "Bernstein et al., ICLR 2019, Algorithm 1",
             .equation = "g <- sign(sum_k sign(g_k))", .combine = &signsgd)
