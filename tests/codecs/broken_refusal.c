/* broken_refusal -- the mean of all gradients, sent behind a tag and their number. It refuses truncated
 * messages and changes nothing; the option selects its fault with other messages. */
#include "codec_events.h"

enum { EXTRA, COUNT, PART, FACTOR, DRAW, RECORD, OUTSIDE, N_TAG = 0x5eed };

struct broken {
    int what, n_seen;
};

static const struct codec_option options[] = {
    CODEC_OPTION_CHOICE(struct broken, what, "extra|count|part|factor|draw|record|outside", "what is broken"),
    {0},
};

static int n_refused; /* for OUTSIDE: no part of the state */

static int broken_encode(struct codec *c, struct wire_out *out)
{
    wire_put_u32(out, N_TAG);
    wire_put_u32(out, (uint32_t)c->n_params);
    wire_put_f32s(out, c->grads, c->n_params);
    return CODEC_GO;
}

/* What this rule does, and must not, before it refuses a message of the right length. */
static void leave_trace(struct codec *c, uint32_t n)
{
    struct broken *b = c->state;

    switch (b->what) {
    case COUNT:
        b->n_seen = (int)n;
        break;
    case FACTOR:
        c->run->lr_factor *= 0.5f;
        break;
    case DRAW:
        codec_uniform(c);
        break;
    case RECORD:
        codec_record(c, "refused", 1);
        break;
    case OUTSIDE:
        n_refused++;
        break;
    default:
        break;
    }
}

static bool is_finite(const struct codec *c, const float *g)
{
    for (size_t i = 0; i < c->n_params; i++)
        if (!(g[i] - g[i] == 0))
            return false;
    return true;
}

static int broken_merge(struct codec *c, int from, struct wire_in *in)
{
    const struct broken *b = c->state;
    uint32_t tag = wire_get_u32(in), n = wire_get_u32(in);
    const float *g = wire_get_f32s(in, c->n_params);
    float part = (b->what == OUTSIDE && n_refused > 0 ? 2.0f : 1.0f) / (float)c->n_contributions;

    if (in->bad || (b->what != EXTRA && !wire_ok(in)))
        return codec_fail(c, "worker %d sent a malformed gradient", from);
    if (tag != N_TAG || n != c->n_params) {
        leave_trace(c, n);
        return codec_fail(c, "worker %d sent the gradient of %u parameters", from, n);
    }
    if (b->what != PART && !is_finite(c, g))
        return codec_fail(c, "worker %d sent a gradient that is not finite", from);
    for (size_t i = 0; i < c->n_params; i++) {
        if (!(g[i] - g[i] == 0))
            return codec_fail(c, "worker %d sent a gradient that is not finite", from);
        c->grads[i] = (c->run->n_merged > 0 ? c->grads[i] : 0) + part * g[i];
    }
    return CODEC_GO;
}

static const struct codec_round broken = {
    .before_update = true, .encode = broken_encode, .merge = broken_merge};

CODEC_PLUGIN(.name = "broken_refusal", .source = "a test", .state_size = sizeof(struct broken),
             .options = options, .more = CODEC_MORE(.round = &broken))
