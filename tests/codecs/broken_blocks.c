/* broken_blocks -- the mean over all blocks, correct while each block has one holder; the option selects
 * its fault with several holders. */
#include "mean.h"

enum { HOLDER, NOISE };

struct broken {
    int what;
    float *noisy; /* (n_params): the gradient sent under NOISE */
};

static const struct codec_option options[] = {
    CODEC_OPTION_CHOICE(struct broken, what, "holder|noise", "what is broken"),
    {0},
};

static int broken_open(struct codec *c)
{
    struct broken *b = c->state;

    return codec_zeros(c, &b->noisy, c->n_params);
}

/* All holders of a block must send the same: this noise differs between nodes. */
static int broken_encode(struct codec *c, struct wire_out *out)
{
    const struct broken *b = c->state;

    for (size_t i = 0; i < c->n_params; i++)
        b->noisy[i] = c->grads[i] * (b->what == NOISE ? 1 + 1e-3f * codec_uniform(c) : 1);
    wire_put_u32(out, (uint32_t)c->run->node);
    codec_put_vector(c, out, b->noisy, c->n_params);
    return CODEC_GO;
}

/* A block has the number of its holder only where it has one holder. */
static int broken_merge(struct codec *c, int from, struct wire_in *in)
{
    const struct broken *b = c->state;
    uint32_t holder = wire_get_u32(in);
    const float *g = codec_get_vector(c, in, c->n_params);

    if (!wire_ok(in) || (b->what == HOLDER && holder != (uint32_t)from))
        return codec_fail(c, "a malformed gradient of block %d", from);
    return mean_add(c, g);
}

static const struct codec_round broken = {
    .before_update = true, .per_block = true, .encode = broken_encode, .merge = broken_merge};

CODEC_PLUGIN(.name = "broken_blocks", .source = "a test", .state_size = sizeof(struct broken),
             .options = options, .open = broken_open, .more = CODEC_MORE(.round = &broken))
