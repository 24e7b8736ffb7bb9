/* fedpaq -- fedavg by differences: after a round of local steps, all nodes take the sample-weighted average
 * of the workers' changes since the last common weights:
 *     w <- w_0 + sum_k (n_k / n) Q(w_k - w_0),      Q: the compression set by --compress
 *
 * Reisizadeh et al., "FedPAQ: A Communication-Efficient Federated Learning Method with Periodic Averaging
 * and Quantization", AISTATS 2020, Algorithm 1, with every device in every round (r = n). Deviations: the
 * paper's average has equal weights; its Q is unbiased, a biased Q here should have ef=true. Servers send
 * w_0 uncompressed. In asgd, which the paper does not treat, a server moves by 1 / n_workers of each
 * difference as it arrives.
 * Cost per round: that of fedavg, before compression; a state of 2 n_params numbers. */
#include "codec.h"

struct fedpaq {
    float n;       /* samples behind the mean in params so far */
    float *common; /* w_0: the weights that workers and servers have in common after each round */
    float *moved;  /* on a worker: the difference that it sends */
};

static int fedpaq_open(struct codec *c)
{
    struct fedpaq *f = c->state;
    int rc;

    rc = c->host->zeros(c, &f->common, c->n_params);
    if (rc < 0)
        return rc;
    memcpy(f->common, c->params, c->n_params * sizeof *f->common);
    return c->host->zeros(c, &f->moved, c->node < 0 ? 0 : c->n_params);
}

static int fedpaq_encode(struct codec *c, struct wire_out *out)
{
    const struct fedpaq *f = c->state;

    for (size_t i = 0; i < c->n_params; i++)
        f->moved[i] = c->params[i] - f->common[i];
    wire_put_f32(out, c->samples);
    c->host->put_vector(c, out, f->moved, c->n_params);
    return CODEC_GO;
}

/* A running mean of w_0 + Q(w_k - w_0), as fedavg's of w_k. In asgd a worker without a contribution counts
 * as unchanged. */
static int fedpaq_merge(struct codec *c, int from, struct wire_in *in)
{
    struct fedpaq *f = c->state;
    float n_k = wire_get_f32(in);
    const float *moved = c->host->get_vector(c, in, c->n_params);
    float part;

    if (!wire_ok(in) || !(n_k > 0))
        return codec_fail(c, "node %d sent a malformed difference", from);
    if (c->n_merged == 0)
        f->n = c->is_sync ? 0 : n_k * (float)(c->n_workers - c->n_contributions);
    f->n += n_k;
    part = n_k / f->n;
    for (size_t i = 0; i < c->n_params; i++)
        c->params[i] = (1 - part) * c->params[i] + part * (f->common[i] + moved[i]);
    return CODEC_GO;
}

static int fedpaq_apply(struct codec *c)
{
    const struct fedpaq *f = c->state;

    memcpy(f->common, c->params, c->n_params * sizeof *f->common);
    return CODEC_GO;
}

static int fedpaq_reply(struct codec *c, struct wire_out *out)
{
    c->host->put_vector(c, out, c->params, c->n_params);
    return CODEC_GO;
}

static int fedpaq_adopt(struct codec *c, struct wire_in *in)
{
    const float *w = c->host->get_vector(c, in, c->n_params);

    if (!wire_ok(in))
        return codec_fail(c, "the server sent a malformed average");
    memcpy(c->params, w, c->n_params * sizeof *w);
    return fedpaq_apply(c);
}

static struct codec_cost fedpaq_sends(const struct codec *c)
{
    uint64_t to = codec_receivers(c);

    return (struct codec_cost){to, to * ((c->node < 0 ? 0 : 4) + 4 * c->n_params)};
}

static const struct codec_round fedpaq = {.encode = fedpaq_encode,
                                          .merge = fedpaq_merge,
                                          .apply = fedpaq_apply,
                                          .reply = fedpaq_reply,
                                          .adopt = fedpaq_adopt};

CODEC_PLUGIN(.name = "fedpaq", .source = "Reisizadeh et al., AISTATS 2020, Algorithm 1",
             .cost = "each round 4 + 4 n_params bytes to each worker, or to the servers, and 4 n_params back",
             .state_size = sizeof(struct fedpaq), .open = fedpaq_open, .round = &fedpaq,
             .sends = fedpaq_sends, .limits = CODEC_ASGD_NEEDS_SERVERS, .compression = CODEC_LOSSY_UP,
             .result = CODEC_MEAN_OF_PARAMETERS)
