#include "runner/exchange/events.h"

#include "runner/exchange/exchange_private.h"

static const struct codec_events *events_of(const struct channel *ch)
{
    return codec_more(ch->x->cfg.plugin)->events;
}

/* A callback may write messages: it is timed as encoding. */
static int call_event(struct channel *ch, const char *name, int (*callback)(struct codec *), bool may_wait)
{
    enum phase last = phase_call(ch->x->watch, PHASE_ENCODE, name);
    int rc;

    channel_before_call(ch);
    rc = channel_after_call(ch, name, callback(&ch->codec), may_wait);
    phase_enter(ch->x->watch, last);
    return rc;
}

static int on_backward(struct channel *ch)
{
    return call_event(ch, "on_backward", events_of(ch)->on_backward, false);
}

static int on_block(struct channel *ch, int block)
{
    (void)block; /* run.block */
    return call_event(ch, "on_block", events_of(ch)->on_block, false);
}

static int on_grad(struct channel *ch)
{
    return call_event(ch, "on_grad", events_of(ch)->on_grad, true);
}

static int on_step(struct channel *ch)
{
    return call_event(ch, "on_step", events_of(ch)->on_step, true);
}

static int on_wake(struct channel *ch)
{
    return call_event(ch, "on_wake", events_of(ch)->on_wake, true);
}

static int on_collective(struct channel *ch)
{
    return events_of(ch)->on_collective(&ch->codec);
}

static int on_lost(struct channel *ch, int node)
{
    enum phase last = phase_call(ch->x->watch, PHASE_DECODE, "on_lost");
    int rc;

    channel_before_call(ch);
    rc = channel_after_call(ch, "on_lost", events_of(ch)->on_lost(&ch->codec, node), true);
    phase_enter(ch->x->watch, last);
    return rc;
}

static int read_message(struct channel *ch, int from, struct wire_in *in)
{
    return events_of(ch)->on_message(&ch->codec, from, in);
}

static int on_message(struct channel *ch, const struct mesh_head *h, struct mesh_buf *b)
{
    int rc = CODEC_GO;

    if (h->kind != FRAME_EVENT)
        rc = channel_fail(ch, "node %d sent a message that is not an event", h->peer);
    else if (events_of(ch)->on_message)
        rc = channel_decode(ch, PHASE_DECODE, "on_message", read_message, h->peer, b);
    channel_received(ch, h->peer, b->len);
    mesh_buf_put(b);
    if (ch->run.node < 0) /* a server takes no steps: its traffic is counted by message */
        channel_round_done(ch);
    return rc;
}

struct channel_handlers events_handlers(const struct codec_events *e)
{
    return (struct channel_handlers){.on_backward = e->on_backward ? on_backward : NULL,
                                     .on_block = e->on_block ? on_block : NULL,
                                     .on_grad = e->on_grad ? on_grad : NULL,
                                     .on_step = e->on_step ? on_step : NULL,
                                     .on_message = on_message,
                                     .on_collective = e->on_collective ? on_collective : NULL,
                                     .on_loss = e->on_lost ? on_lost : NULL,
                                     .on_leave = e->on_lost ? on_lost : NULL,
                                     .on_wake = e->on_wake ? on_wake : NULL,
                                     .is_hopeless = collecting_is_hopeless,
                                     .awaits = collecting_awaits,
                                     .waits_for = collecting_waits_for,
                                     .counts_steps = true,
                                     .is_quiescent = e->is_quiescent_between_steps};
}
