/* easgd_grad -- elastic averaging as a term of the gradient. Worker i takes its local steps with
 *     w_i <- w_i - eta (g_i + rho (w_i - x))
 * and after each `every` of them the center moves towards all workers, which keep their own weights:
 *     x <- x + eta rho sum_i (w_i - x)
 * In asgd, on servers, the sum is over the one contribution that arrived, and the worker gets the center from
 * before it.
 *
 * Zhang, Choromanska and LeCun, "Deep learning with Elastic Averaging SGD", NIPS 2015, eq. 3 and 4.
 * Deviation, as in the notebook on ZeroMQ that psgd descends from, whose printed numbers test_server_rules
 * computes again: the center moves by the w_i after their steps, in the paper by those before. eta is the
 * learning rate of the local steps, by the job's optimizer; without every=1 the workers' center is that of
 * their last exchange. The result is the center. */
#include "codec.h"

struct easgd_grad {
    float rho;
};

static const struct codec_option options[] = {
    CODEC_OPTION(struct easgd_grad, rho, 0.5, 0, 1e6, "strength of the pull between worker and center"),
    {0},
};

static int easgd_grad_on_gradient(struct codec *c)
{
    const struct easgd_grad *e = c->state;

    for (size_t i = 0; i < c->n_params; i++)
        c->grads[i] += e->rho * (c->params[i] - c->global[i]);
    return CODEC_GO;
}

static float easgd_grad_contribute(struct codec *c, float *const *v)
{
    memcpy(v[0], c->params, c->n_params * sizeof *v[0]);
    c->numbers[0] = c->lr_sum / (float)c->n_local;
    return 1;
}

static int easgd_grad_apply(struct codec *c, const float *const *mean)
{
    const struct easgd_grad *e = c->state;
    float part = c->numbers[0] * e->rho * (float)c->n_contributions;

    for (size_t i = 0; i < c->n_params; i++)
        c->global[i] += part * (mean[0][i] - c->global[i]);
    return CODEC_GO;
}

static int easgd_grad_adopt(struct codec *c, const float *x)
{
    (void)c, (void)x; /* a worker keeps its own weights */
    return CODEC_GO;
}

static const struct codec_combine easgd_grad = {.when = CODEC_EACH_ROUND,
                                                .n_numbers = 1,
                                                .keeps_global = true,
                                                .contribute = easgd_grad_contribute,
                                                .apply = easgd_grad_apply,
                                                .adopt = easgd_grad_adopt,
                                                .on_gradient = easgd_grad_on_gradient};

CODEC_PLUGIN(.name = "easgd_grad", .source = "Zhang, Choromanska and LeCun, NIPS 2015, eq. 3 and 4",
             .equation = "w_i <- w_i - eta (g_i + rho (w_i - x)); x <- x + eta rho sum_i (w_i - x)",
             .state_size = sizeof(struct easgd_grad), .options = options, .combine = &easgd_grad)
