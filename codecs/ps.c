/* ps -- workers send their gradients, the server updates the weights and sends them back:
 *     ssgd:  x <- x - eta (1 / n) sum_k g_k, when all n are received
 *     asgd:  x <- x - eta g_k, as each is received
 *
 * Li et al., "Scaling Distributed Machine Learning with the Parameter Server", OSDI 2014, Algorithm 1
 * (ssgd); Dean et al., "Large Scale Distributed Deep Networks", NIPS 2012, section 4.1, with one step
 * between fetch and push (asgd). The update is a step of the job's optimizer, which runs on the server
 * only.
 *
 * In asgd the staleness of a gradient is the number of updates that the server has made since its last
 * reply to the worker: a row "staleness" of the server's codec.csv. No gradient is too stale to be used.
 *
 * Cost per step: 4 + 4 n_params bytes to each server for its range, and as many back. */
#include "codec.h"

struct ps {
    uint32_t version; /* on a worker: number of server updates in its present weights */
};

static int ps_encode(struct codec *c, struct wire_out *out)
{
    const struct ps *p = c->state;

    wire_put_u32(out, p->version);
    c->host->put_vector(c, out, c->grads, c->n_params);
    return CODEC_GO;
}

static int ps_merge(struct codec *c, int from, struct wire_in *in)
{
    uint32_t version = wire_get_u32(in);
    const float *g = c->host->get_vector(c, in, c->n_params);
    float part = 1.0f / (float)c->n_contributions;

    if (!wire_ok(in) || version > c->round)
        return codec_fail(c, "node %d sent a malformed gradient", from);
    for (size_t i = 0; i < c->n_params; i++)
        c->grads[i] = (c->n_merged > 0 ? c->grads[i] : 0) + part * g[i];
    return c->is_sync ? CODEC_GO : c->host->record(c, "staleness", (double)(c->round - version));
}

static int ps_apply(struct codec *c)
{
    return c->host->update(c);
}

static int ps_reply(struct codec *c, struct wire_out *out)
{
    wire_put_u32(out, (uint32_t)c->round + 1); /* includes the update of this round */
    c->host->put_vector(c, out, c->params, c->n_params);
    return CODEC_GO;
}

static int ps_adopt(struct codec *c, struct wire_in *in)
{
    struct ps *p = c->state;
    uint32_t version = wire_get_u32(in);
    const float *x = c->host->get_vector(c, in, c->n_params);

    if (!wire_ok(in))
        return codec_fail(c, "the server sent malformed weights");
    memcpy(c->params, x, c->n_params * sizeof *x);
    p->version = version;
    return CODEC_GO;
}

static struct codec_cost ps_sends(const struct codec *c)
{
    uint64_t to = codec_receivers(c);

    return (struct codec_cost){to, to * (4 + 4 * c->n_params)};
}

static const struct codec_round ps = {.before_update = true,
                                      .encode = ps_encode,
                                      .merge = ps_merge,
                                      .apply = ps_apply,
                                      .reply = ps_reply,
                                      .adopt = ps_adopt};

CODEC_PLUGIN(.name = "ps", .source = "Li et al., OSDI 2014, Algorithm 1; Dean et al., NIPS 2012",
             .cost = "each step 4 + 4 n_params bytes to each server for its range, and as many back",
             .state_size = sizeof(struct ps), .round = &ps, .updates_on_server = true,
             .compression = CODEC_LOSSY_UP, .result = CODEC_MEAN_OF_GRADIENTS, .sends = ps_sends)
