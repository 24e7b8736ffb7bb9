/* channel_send -- a channel's messages to and from one peer, and the statistics on them. */
#include "runner/exchange/exchange_private.h"

bool channel_is_behind(const struct channel *ch, int node)
{
    return mesh_queued_for(ch->x->mesh, node) >= EXCHANGE_BACKLOG_MAX;
}

void channel_overtaken(struct channel *ch)
{
    ch->x->totals.n_overtaken++;
}

void channel_pause(struct channel *ch, int node, bool on)
{
    mesh_pause(ch->x->mesh, node, on);
}

/* By reference if it is in a buffer, else by view. `saved`: bytes that compression saved in it. */
static int send_bytes(struct channel *ch, const struct mesh_head *h, struct mesh_buf *b, const void *bytes,
                      size_t len, int64_t saved, double encode_s)
{
    struct exchange *x = ch->x;
    struct peer_traffic *p = peer_stats_make(&x->peer_stats, exchange_slot(x, h->peer));
    enum phase last = phase_enter(x->watch, PHASE_SEND);
    double start = stopwatch_since(x->watch);

    if (!p)
        return err_set(x->e, ERR_NOMEM, "no memory for the traffic statistics of node %d", h->peer);
    if ((b ? mesh_send(x->mesh, h, b, x->e) : mesh_send_view(x->mesh, h, bytes, len, x->e)) < 0)
        return x->e->code;
    if (x->watch->tracer)
        tracer_message(x->watch->tracer, TRACE_SENT, h->peer, ++p->n_sent, start);
    phase_enter(x->watch, last);
    p->sent.messages++;
    p->sent.raw_bytes += len + (uint64_t)saved;
    p->sent.wire_bytes += len + FRAME_BYTES;
    p->sent.encode_s += encode_s;
    p->sent.transfer_s += stopwatch_since(x->watch) - start;
    x->totals.sent_messages++;
    x->totals.raw_bytes += len + (uint64_t)saved;
    x->totals.sent_bytes += len + FRAME_BYTES;
    return CODEC_GO;
}

int channel_send(struct channel *ch, const struct mesh_head *h, struct mesh_buf *b, double encode_s)
{
    return send_bytes(ch, h, b, b->bytes, b->len, ch->compressing.saved_out, encode_s);
}

int channel_send_view(struct channel *ch, const struct mesh_head *h, const void *bytes, size_t len,
                      size_t saved)
{
    return send_bytes(ch, h, NULL, bytes, len, (int64_t)saved, 0);
}

void channel_received(struct channel *ch, int from, size_t len)
{
    struct exchange_traffic *t = &peer_stats_of(&ch->x->peer_stats, exchange_slot(ch->x, from))->received;

    t->messages++;
    t->raw_bytes += len + (uint64_t)ch->compressing.saved_in;
    ch->compressing.saved_in = 0;
    t->wire_bytes += len + FRAME_BYTES;
    ch->x->totals.recv_messages++;
    ch->x->totals.recv_bytes += len + FRAME_BYTES;
}

void channel_shared(struct channel *ch, int peer, size_t sent, size_t received)
{
    struct exchange *x = ch->x;
    struct peer_traffic *p = peer_stats_of(&x->peer_stats, exchange_slot(x, peer));

    p->sent.messages++;
    p->sent.raw_bytes += sent;
    p->sent.wire_bytes += sent;
    p->received.messages++;
    p->received.raw_bytes += received;
    p->received.wire_bytes += received;
    x->totals.sent_messages++;
    x->totals.recv_messages++;
    x->totals.raw_bytes += sent;
    x->totals.sent_bytes += sent;
    x->totals.recv_bytes += received;
}

void channel_waited(struct channel *ch, int peer)
{
    struct peer_traffic *p = peer_stats_of(&ch->x->peer_stats, exchange_slot(ch->x, peer));

    p->received.transfer_s += stopwatch_now(ch->x->watch) - ch->round.sent_at;
}
