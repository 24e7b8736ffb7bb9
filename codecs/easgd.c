/* easgd -- elastic averaging: workers train independently; after each `every` local steps worker and center
 * are drawn towards each other:
 *     w_i <- w_i - alpha (w_i - x)      x <- x + alpha sum_i (w_i - x)
 * with x and w_i from before the exchange. In asgd workers have no common center without servers.
 *
 * Zhang, Choromanska and LeCun, "Deep learning with Elastic Averaging SGD", NIPS 2015: eq. 5 and 6 (ssgd),
 * Algorithm 1 (asgd, on servers: the sum is over the one contribution that arrived). The default of alpha is
 * 0.9 / n_workers, the paper's beta = 0.9. Deviation: in the paper the gradient step and the elastic force
 * act on the same w_i; here the force acts on the result of the local steps. The paper has alpha below 1;
 * where n_workers alpha > 1 the center overshoots the mean of the workers, from 2 on ever further. The
 * result is the center, as in the paper. Before its end a worker in asgd evaluates the last center that the
 * servers sent to it. */
#include <math.h>

#include "codec_events.h"

struct easgd {
    float alpha;
};

static const struct codec_option options[] = {
    CODEC_OPTION(struct easgd, alpha, NAN, 0, 1,
                 "fraction of their difference that worker and center move; default 0.9 / n_workers"),
    {0},
};

static int easgd_open(struct codec *c)
{
    struct easgd *e = c->state;

    if (isnan(e->alpha))
        e->alpha = 0.9f / (float)c->n_workers;
    if (c->is_sync && e->alpha * (float)c->n_workers > 1)
        codec_log(c, "alpha=%g with %d workers moves the center beyond their mean; up to %g it does not",
                  (double)e->alpha, c->n_workers, 1.0 / c->n_workers);
    return CODEC_GO;
}

/* sum_i (w_i - x) = n (mean - x) */
static int easgd_apply(struct codec *c, const float *const *mean)
{
    const struct easgd *e = c->state;
    float part = e->alpha * (float)c->n_contributions;

    for (size_t i = 0; i < c->n_params; i++)
        c->global[i] += part * (mean[0][i] - c->global[i]);
    return CODEC_GO;
}

static int easgd_adopt(struct codec *c, const float *x)
{
    const struct easgd *e = c->state;

    for (size_t i = 0; i < c->n_params; i++)
        c->params[i] -= e->alpha * (c->params[i] - x[i]);
    return CODEC_GO;
}

static const struct codec_combine easgd = {
    .when = CODEC_EACH_ROUND, .keeps_global = true, .apply = easgd_apply, .adopt = easgd_adopt};

CODEC_PLUGIN(.name = "easgd", .source = "Zhang, Choromanska and LeCun, NIPS 2015, eq. 5 and 6, Algorithm 1",
             .equation = "w_i <- w_i - alpha (w_i - x); x <- x + alpha sum_i (w_i - x)",
             .state_size = sizeof(struct easgd), .options = options, .open = easgd_open, .combine = &easgd)
