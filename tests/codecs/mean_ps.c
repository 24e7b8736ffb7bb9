/* mean_ps -- gradients go to the servers, their mean comes back, both compressed if anybody wishes. */
#include "codec.h"

static int mean_encode(struct codec *c, struct wire_out *out)
{
    c->host->put_vector(c, out, c->grads, c->n_params);
    return CODEC_GO;
}

static int mean_merge(struct codec *c, int from, struct wire_in *in)
{
    const float *g = c->host->get_vector(c, in, c->n_params);

    if (!wire_ok(in))
        return codec_fail(c, "node %d sent a malformed gradient", from);
    for (size_t i = 0; i < c->n_params; i++)
        c->grads[i] = (c->n_merged > 0 ? c->grads[i] : 0) + g[i] / (float)c->n_words;
    return CODEC_GO;
}

static int mean_adopt(struct codec *c, struct wire_in *in)
{
    const float *g = c->host->get_vector(c, in, c->n_params);

    if (!wire_ok(in))
        return codec_fail(c, "the server sent a malformed gradient");
    memcpy(c->grads, g, c->n_params * sizeof *g);
    return CODEC_GO;
}

static const struct codec_round mean = {.before_update = true,
                                        .encode = mean_encode,
                                        .merge = mean_merge,
                                        .reply = mean_encode,
                                        .adopt = mean_adopt};

CODEC_PLUGIN(.name = "mean_ps", .source = "a test", .round = &mean, .compression = CODEC_LOSSY)
