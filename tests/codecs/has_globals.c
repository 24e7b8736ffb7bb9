/* Violates the contract: its result depends on how many contributions any node has merged before. */
#include "codec_events.h"

static float n_merged;

static int encode(struct codec *c, struct wire_out *out)
{
    wire_put_f32s(out, c->params, c->n_params);
    return CODEC_GO;
}

static int merge(struct codec *c, int from, struct wire_in *in)
{
    const float *w = wire_get_f32s(in, c->n_params);

    if (!wire_ok(in))
        return codec_fail(c, "worker %d sent malformed weights", from);
    n_merged = c->run->step == 1 && from == c->run->node ? n_merged + 1 : n_merged;
    for (size_t i = 0; i < c->n_params; i++)
        c->params[i] += w[i] * n_merged * (float)(c->run->node + 1);
    return CODEC_GO;
}

static const struct codec_round rule = {.encode = encode, .merge = merge};

CODEC_PLUGIN(.name = "has_globals", .source = "a test", .more = CODEC_MORE(.round = &rule))
