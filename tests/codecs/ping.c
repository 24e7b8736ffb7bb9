/* ping -- an event rule: after each step everybody tells the next worker how far it is and waits to hear it from the
 * one before. */
#include "codec.h"

static int ping_on_step(struct codec *c)
{
    wire_put_u32(c->host->message(c), (uint32_t)c->step);
    if (c->host->send(c, (c->node + 1) % c->n_workers) < 0)
        return codec_fail(c, "cannot send");
    return CODEC_WAIT;
}

static int ping_on_message(struct codec *c, int from, struct wire_in *in)
{
    uint32_t step = wire_get_u32(in);

    if (!wire_ok(in))
        return codec_fail(c, "node %d sent a malformed ping", from);
    return step == c->step ? CODEC_GO : codec_fail(c, "node %d is at step %u, I at %u", from, step, (unsigned)c->step);
}

static const struct codec_events ping = {.on_step = ping_on_step, .on_message = ping_on_message};

CODEC_PLUGIN(.name = "ping", .source = "a test", .events = &ping)
