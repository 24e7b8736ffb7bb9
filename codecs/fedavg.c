/* fedavg -- after a round of local steps, every worker takes the sample-weighted average of all weights:
 *     w <- sum_k (n_k / n) w_k
 *
 * McMahan et al., "Communication-Efficient Learning of Deep Networks from Decentralized Data", AISTATS
 * 2017, Algorithm 1, with every client in every round (C = 1). With parameter servers each server computes
 * the average of its range; without, every worker computes it itself.
 *
 * In asgd a worker whose contribution has not arrived counts with the server's present weights: a server
 * moves its weights by 1 / n_workers towards each contribution as it arrives. The paper has synchronous
 * rounds only.
 *
 * Cost per round: a worker sends 4 + 4 n_params bytes to each other worker, or once to all servers
 * together, which send 4 n_params bytes back. */
#include "codec.h"

struct fedavg {
    float n; /* samples behind the mean in params so far */
};

static int fedavg_encode(struct codec *c, struct wire_out *out)
{
    wire_put_f32(out, c->samples);
    c->host->put_vector(c, out, c->params, c->n_params);
    return CODEC_GO;
}

/* A running mean: params move by n_k / n towards each contribution; the first contribution of a synchronous
 * round replaces them. */
static int fedavg_merge(struct codec *c, int from, struct wire_in *in)
{
    struct fedavg *f = c->state;
    float n_k = wire_get_f32(in);
    const float *w_k = c->host->get_vector(c, in, c->n_params);
    float part;

    if (!wire_ok(in) || !(n_k > 0))
        return codec_fail(c, "node %d sent a malformed average", from);
    if (c->n_merged == 0)
        f->n = c->is_sync || c->n_contributions > c->n_workers
                   ? 0
                   : n_k * (float)(c->n_workers - c->n_contributions);
    f->n += n_k;
    part = n_k / f->n;
    for (size_t i = 0; i < c->n_params; i++)
        c->params[i] = (1 - part) * c->params[i] + part * w_k[i];
    return CODEC_GO;
}

static int fedavg_reply(struct codec *c, struct wire_out *out)
{
    c->host->put_vector(c, out, c->params, c->n_params);
    return CODEC_GO;
}

static int fedavg_adopt(struct codec *c, struct wire_in *in)
{
    const float *w = c->host->get_vector(c, in, c->n_params);

    if (!wire_ok(in))
        return codec_fail(c, "the server sent a malformed average");
    memcpy(c->params, w, c->n_params * sizeof *w);
    return CODEC_GO;
}

static struct codec_cost fedavg_sends(const struct codec *c)
{
    uint64_t to = codec_receivers(c);

    return (struct codec_cost){to, to * ((c->node < 0 ? 0 : 4) + 4 * c->n_params)};
}

static const struct codec_round fedavg = {
    .encode = fedavg_encode, .merge = fedavg_merge, .reply = fedavg_reply, .adopt = fedavg_adopt};

CODEC_PLUGIN(.name = "fedavg", .source = "McMahan et al., AISTATS 2017, Algorithm 1",
             .cost =
                 "each round 4 + 4 n_params bytes to each other worker, or once to the servers, which send "
                 "4 n_params back",
             .state_size = sizeof(struct fedavg), .round = &fedavg, .result = CODEC_MEAN_OF_PARAMETERS,
             .sends = fedavg_sends)
