/* easgd -- elastic averaging: workers train independently; after each `every` local steps worker and center
 * are drawn towards each other,
 *     w_i <- w_i - alpha (w_i - x)      x <- x + alpha sum_i (w_i - x)
 * with x and w_i from before the exchange. With parameter servers the center is on the servers. Without
 * servers each worker has a copy, and all copies move equally; in asgd they could not, so servers are
 * required there.
 *
 * Zhang, Choromanska and LeCun, "Deep learning with Elastic Averaging SGD", NIPS 2015: eq. 5 and 6 (ssgd),
 * Algorithm 1 (asgd, on servers: the sum is over the one contribution that arrived). The default of alpha
 * is 0.9 / n_workers, the paper's beta = 0.9. Deviation: in the paper the gradient step and the elastic
 * force act on the same w_i; here the force acts on the result of the local steps.
 * The result is the center, as in the paper; with servers that of their last reply, before the contributions
 * of that round.
 * Cost per round: 4 n_params bytes to each other worker, or to all servers together, and as many back. */
#include <math.h>

#include "codec.h"

struct easgd {
    float alpha;
    float *center; /* on a worker: its copy; on a server the center is params */
    float *was;    /* the center before this round, or as the server sent it last */
};

static const struct codec_option options[] = {
    CODEC_OPTION(struct easgd, alpha, NAN, 0, 1,
                 "fraction of their difference that worker and center move; default 0.9 / n_workers"),
    {0},
};

static int easgd_open(struct codec *c)
{
    struct easgd *e = c->state;
    size_t n_copy = c->server ? 0 : c->n_params;
    int rc;

    if (isnan(e->alpha))
        e->alpha = 0.9f / (float)c->n_workers;
    if (c->is_sync && e->alpha * (float)c->n_workers > 1)
        return codec_fail(c, "alpha=%g with %d workers moves the center beyond their mean; use at most %g",
                          (double)e->alpha, c->n_workers, 1.0 / c->n_workers);
    rc = c->host->zeros(c, &e->center, n_copy);
    if (rc == CODEC_GO)
        rc = c->host->zeros(c, &e->was, c->n_params);
    if (rc < 0)
        return rc;
    memcpy(e->center, c->params, n_copy * sizeof *e->center);
    memcpy(e->was, c->params, c->n_params * sizeof *e->was);
    return CODEC_GO;
}

/* A worker sends its weights; a server replies with the center before this round. */
static int easgd_encode(struct codec *c, struct wire_out *out)
{
    const struct easgd *e = c->state;

    c->host->put_vector(c, out, c->node < 0 ? e->was : c->params, c->n_params);
    return CODEC_GO;
}

static int easgd_merge(struct codec *c, int from, struct wire_in *in)
{
    const struct easgd *e = c->state;
    const float *w = c->host->get_vector(c, in, c->n_params);
    float *x = c->node < 0 ? c->params : e->center;

    if (!wire_ok(in))
        return codec_fail(c, "node %d sent malformed weights", from);
    if (c->n_merged == 0)
        memcpy(e->was, x, c->n_params * sizeof *x);
    for (size_t i = 0; i < c->n_params; i++)
        x[i] += e->alpha * (w[i] - e->was[i]);
    return CODEC_GO;
}

static int easgd_apply(struct codec *c)
{
    const struct easgd *e = c->state;

    for (size_t i = 0; c->node >= 0 && i < c->n_params; i++)
        c->params[i] -= e->alpha * (c->params[i] - e->was[i]);
    return CODEC_GO;
}

static int easgd_adopt(struct codec *c, struct wire_in *in)
{
    const struct easgd *e = c->state;
    const float *x = c->host->get_vector(c, in, c->n_params);

    if (!wire_ok(in))
        return codec_fail(c, "the server sent a malformed center");
    memcpy(e->was, x, c->n_params * sizeof *x);
    return easgd_apply(c);
}

static const float *easgd_model(const struct codec *c)
{
    const struct easgd *e = c->state;

    return c->server ? e->was : e->center;
}

static struct codec_cost easgd_sends(const struct codec *c)
{
    uint64_t to = codec_receivers(c);

    return (struct codec_cost){to, to * 4 * c->n_params};
}

static const struct codec_round easgd = {.encode = easgd_encode,
                                         .merge = easgd_merge,
                                         .apply = easgd_apply,
                                         .reply = easgd_encode,
                                         .adopt = easgd_adopt};

CODEC_PLUGIN(.name = "easgd", .source = "Zhang, Choromanska and LeCun, NIPS 2015, eq. 5 and 6, Algorithm 1",
             .cost = "each round 4 n_params bytes to each other worker, or to the servers, and as many back",
             .state_size = sizeof(struct easgd), .options = options, .open = easgd_open, .round = &easgd,
             .sends = easgd_sends, .model = easgd_model, .limits = CODEC_ASGD_NEEDS_SERVERS)
