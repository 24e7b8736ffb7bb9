/* broken_lost -- each step of the other workers waits for a message of worker 0, which skips the last
 * worker after its sixth step. */
#include "codec_events.h"

struct broken {
    int n_beats, n_steps;
    bool is_waiting;
};

static int give_beat(struct codec *c)
{
    wire_put_u32(codec_message(c), 1);
    for (int to = 1; to < c->n_workers; to++)
        if ((c->run->step != 6 || to < c->n_workers - 1) && codec_send(c, to) < 0)
            return -1;
    return CODEC_GO;
}

static int broken_on_step(struct codec *c)
{
    struct broken *b = c->state;

    if (c->run->node == 0)
        return give_beat(c);
    b->is_waiting = b->n_beats < ++b->n_steps;
    return b->is_waiting ? CODEC_WAIT : CODEC_GO;
}

static int broken_on_message(struct codec *c, int from, struct wire_in *in)
{
    struct broken *b = c->state;
    uint32_t n = wire_get_u32(in);

    if (!wire_ok(in) || n != 1)
        return codec_fail(c, "worker %d sent a malformed beat", from);
    b->n_beats++;
    b->is_waiting = b->is_waiting && b->n_beats < b->n_steps;
    return b->is_waiting ? CODEC_WAIT : CODEC_GO;
}

static const struct codec_events broken = {.on_step = broken_on_step, .on_message = broken_on_message};

CODEC_PLUGIN(.name = "broken_lost", .source = "a test", .state_size = sizeof(struct broken),
             .limits = CODEC_NO_SERVERS | CODEC_NO_ASGD, .more = CODEC_MORE(.events = &broken))
