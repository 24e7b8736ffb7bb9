/* broken_promise -- the mean of all gradients, and one violation of the contract, which the option
 * selects. */
#include <stdlib.h>

#include "codec_events.h"

enum { COST, MEMORY, ALIGNED, GLOBAL, TRACE, TAKEN, SIGN };

struct broken {
    int what, n_merged;
};

static const struct codec_option options[] = {
    CODEC_OPTION_CHOICE(struct broken, what, "cost|memory|aligned|global|trace|taken|sign", "what is broken"),
    {0},
};

static float drift; /* for GLOBAL: no checkpoint contains it */

static int broken_encode(struct codec *c, struct wire_out *out)
{
    wire_put_f32s(out, c->grads, c->n_params);
    return CODEC_GO;
}

static float part_of(const struct codec *c)
{
    const struct broken *b = c->state;

    if (b->what == GLOBAL)
        drift += 1e-3f;
    return (b->what == SIGN ? -1 : 1) * (1 + drift) / (float)c->n_contributions;
}

static int broken_merge(struct codec *c, int from, struct wire_in *in)
{
    const float *g = wire_get_f32s(in, c->n_params);
    struct broken *b = c->state;
    float part;
    void *volatile block;

    b->n_merged += b->what == TRACE;
    if (!wire_ok(in))
        return b->what == TAKEN ? CODEC_GO : codec_fail(c, "worker %d sent a malformed gradient", from);
    if (b->what == MEMORY || b->what == ALIGNED) {
        block = b->what == MEMORY ? malloc(16) : aligned_alloc(64, 64);
        free(block);
    }
    part = part_of(c);
    for (size_t i = 0; i < c->n_params; i++)
        c->grads[i] = (c->run->n_merged > 0 ? c->grads[i] : 0) + part * g[i];
    return CODEC_GO;
}

static struct codec_cost broken_sends(const struct codec *c)
{
    const struct broken *b = c->state;
    uint64_t to = (uint64_t)c->n_workers - 1;

    return (struct codec_cost){to, to * 4 * c->n_params - (b->what == COST)};
}

static const struct codec_round broken = {
    .before_update = true, .encode = broken_encode, .merge = broken_merge};

CODEC_PLUGIN(.name = "broken_promise", .source = "a test", .state_size = sizeof(struct broken),
             .options = options, .more = CODEC_MORE(.round = &broken, .sends = broken_sends))
