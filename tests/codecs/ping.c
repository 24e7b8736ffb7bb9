/* ping -- an event rule: after each step every worker sends its step number to the next worker, and waits
 * until the previous worker has reached the same step. A ping may arrive before this node's own step is
 * done. */
#include "codec_events.h"

struct ping {
    uint32_t received; /* steps that the previous worker has completed */
};

static int is_received(const struct codec *c)
{
    const struct ping *p = c->state;

    return p->received >= c->run->step ? CODEC_GO : CODEC_WAIT;
}

static int ping_on_step(struct codec *c)
{
    wire_put_u32(codec_message(c), (uint32_t)c->run->step);
    if (codec_send(c, (c->run->node + 1) % c->n_workers) < 0)
        return codec_fail(c, "cannot send");
    return is_received(c);
}

static int ping_on_message(struct codec *c, int from, struct wire_in *in)
{
    struct ping *p = c->state;

    p->received = wire_get_u32(in);
    return wire_ok(in) ? is_received(c) : codec_fail(c, "node %d sent a malformed ping", from);
}

static const struct codec_events ping = {.on_step = ping_on_step, .on_message = ping_on_message};

CODEC_PLUGIN(.name = "ping", .source = "a test", .state_size = sizeof(struct ping),
             .more = CODEC_MORE(.events = &ping))
