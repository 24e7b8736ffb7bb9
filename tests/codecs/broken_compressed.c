/* broken_compressed -- the mean of all gradients, correct without compression; the option selects its
 * fault. */
#include "codec_events.h"

enum { RAW, BEYOND };

struct broken {
    int what;
};

static const struct codec_option options[] = {
    CODEC_OPTION_CHOICE(struct broken, what, "raw|beyond", "what is broken"),
    {0},
};

/* The message continues after the vector, where it is not compressed. */
static int broken_encode(struct codec *c, struct wire_out *out)
{
    codec_put_vector(c, out, c->grads, c->n_params);
    wire_put_f32(out, c->samples);
    return CODEC_GO;
}

/* The mean of two neighbors; the last number has none. */
static float smooth(const float *g, size_t i)
{
    return (g[i] + g[i + 1]) / 2;
}

static int broken_merge(struct codec *c, int from, struct wire_in *in)
{
    const struct broken *b = c->state;
    const float *g = b->what == RAW ? wire_get_f32s(in, c->n_params) : codec_get_vector(c, in, c->n_params);
    float samples = wire_get_f32(in);

    if (!wire_ok(in) || !(samples > 0))
        return codec_fail(c, "worker %d sent a malformed gradient", from);
    for (size_t i = 0; i < c->n_params; i++)
        c->grads[i] = (c->run->n_merged > 0 ? c->grads[i] : 0) +
                      (b->what == BEYOND ? smooth(g, i) : g[i]) / (float)c->n_contributions;
    return CODEC_GO;
}

static const struct codec_round broken = {
    .before_update = true, .encode = broken_encode, .merge = broken_merge};

CODEC_PLUGIN(.name = "broken_compressed", .source = "a test", .state_size = sizeof(struct broken),
             .options = options, .more = CODEC_MORE(.round = &broken, .compression = CODEC_LOSSY_UP))
