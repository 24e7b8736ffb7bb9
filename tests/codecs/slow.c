/* slow -- plain, on a machine where worker 2 takes its time over each block. */
#include <time.h>

#include "mean.h"

static int slow_encode(struct codec *c, struct wire_out *out)
{
    const struct timespec while_others_wait = {.tv_nsec = 100000000};

    if (c->node == 2)
        nanosleep(&while_others_wait, NULL);
    wire_put_f32s(out, c->grads, c->n_params);
    return CODEC_GO;
}

static int slow_merge(struct codec *c, int block, struct wire_in *in)
{
    const float *g = wire_get_f32s(in, c->n_params);

    if (!wire_ok(in))
        return codec_fail(c, "a malformed gradient of block %d", block);
    return mean_add(c, g);
}

static const struct codec_round slow = {
    .before_update = true, .per_block = true, .encode = slow_encode, .merge = slow_merge};

CODEC_PLUGIN(.name = "slow", .source = "a test", .round = &slow)
