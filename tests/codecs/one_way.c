/* one_way -- an event rule in which worker 0 sends its weights to worker 1 after each step and gets no reply;
 * with servers, each worker also sends to the server of its range, and a server sends to another server. */
#include "codec_events.h"

static int give(struct codec *c, int to)
{
    wire_put_f32s(codec_message(c), c->params, 1);
    return codec_send(c, to);
}

static int one_way_on_step(struct codec *c)
{
    if (c->run->node == 0 && c->n_workers > 1 && give(c, 1) < 0)
        return -1;
    return c->run->server && c->run->step == 1 ? give(c, c->run->server) : CODEC_GO;
}

static int one_way_on_message(struct codec *c, int from, struct wire_in *in)
{
    (void)wire_get_f32(in);
    if (!wire_ok(in))
        return codec_fail(c, "node %d sent a malformed message", from);
    if (c->run->node == -2 && from >= 0 && c->run->n_servers > 1)
        return give(c, -3);
    return CODEC_GO;
}

static const struct codec_events one_way = {.on_step = one_way_on_step, .on_message = one_way_on_message};

CODEC_PLUGIN(.name = "one_way", .source = "a test", .more = CODEC_MORE(.events = &one_way))
