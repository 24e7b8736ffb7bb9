/* half -- the mean of the first half of all gradients, a likely first mistake: the other half stays the
 * worker's own gradient, which the others do not have. */
#include "codec_events.h"

static int half_encode(struct codec *c, struct wire_out *out)
{
    wire_put_f32s(out, c->grads, c->n_params / 2);
    return CODEC_GO;
}

static int half_merge(struct codec *c, int from, struct wire_in *in)
{
    const float *g = wire_get_f32s(in, c->n_params / 2);

    if (!wire_ok(in))
        return codec_fail(c, "worker %d sent a malformed gradient", from);
    for (size_t i = 0; i < c->n_params / 2; i++)
        c->grads[i] = (c->run->n_merged > 0 ? c->grads[i] : 0) + g[i] / (float)c->n_contributions;
    return CODEC_GO;
}

static const struct codec_round half = {.before_update = true, .encode = half_encode, .merge = half_merge};

CODEC_PLUGIN(.name = "half", .source = "a test",
             .more = CODEC_MORE(.round = &half, .compression = CODEC_UNCOMPRESSED))
