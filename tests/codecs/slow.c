/* slow -- as plain, but worker 2 delays its first block until worker 0 is as many steps ahead as the other
 * workers allow. Worker 0 makes the file is-ahead in its folder then; worker 2 waits for one in its own,
 * which the test makes, as codecs see no other folder. */
#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include "mean.h"

static int slow_encode(struct codec *c, struct wire_out *out)
{
    static const char is_ahead[] = "is-ahead";

    if (c->run->node == 0 && c->run->step == 15)
        close(creat(is_ahead, 0600));
    while (c->run->node == 2 && access(is_ahead, F_OK) < 0)
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
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

CODEC_PLUGIN(.name = "slow", .source = "a test", .more = CODEC_MORE(.round = &slow))
