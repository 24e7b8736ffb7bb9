/* broken_sum -- the mean of all gradients, but the first gradient is not divided by their number. */
#include "codec_events.h"

static int broken_encode(struct codec *c, struct wire_out *out)
{
    wire_put_f32s(out, c->grads, c->n_params);
    return CODEC_GO;
}

static int broken_merge(struct codec *c, int from, struct wire_in *in)
{
    const float *g = wire_get_f32s(in, c->n_params);

    if (!wire_ok(in))
        return codec_fail(c, "worker %d sent a malformed gradient", from);
    for (size_t i = 0; i < c->n_params; i++)
        c->grads[i] = c->run->n_merged > 0 ? c->grads[i] + g[i] / (float)c->n_contributions : g[i];
    return CODEC_GO;
}

static const struct codec_round broken = {
    .before_update = true, .encode = broken_encode, .merge = broken_merge};

CODEC_PLUGIN(.name = "broken_sum", .source = "a test",
             .more = CODEC_MORE(.round = &broken, .result = CODEC_MEAN_OF_GRADIENTS))
