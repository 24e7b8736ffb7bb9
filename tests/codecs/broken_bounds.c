/* broken_bounds -- the mean of all gradients, read from a message without checking its length. */
#include "codec_events.h"

static int broken_encode(struct codec *c, struct wire_out *out)
{
    wire_put_f32s(out, c->grads, c->n_params);
    return CODEC_GO;
}

static int broken_merge(struct codec *c, int from, struct wire_in *in)
{
    (void)from;
    for (size_t i = 0; i < c->n_params; i++) {
        float g;

        memcpy(&g, in->bytes + i * sizeof g, sizeof g);
        c->grads[i] = (c->run->n_merged > 0 ? c->grads[i] : 0) + g / (float)c->n_contributions;
    }
    return CODEC_GO;
}

static const struct codec_round broken = {
    .before_update = true, .encode = broken_encode, .merge = broken_merge};

CODEC_PLUGIN(.name = "broken_bounds", .source = "a test",
             .more = CODEC_MORE(.round = &broken, .result = CODEC_MEAN_OF_GRADIENTS))
