#include "agent/runner/exchange/channel.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/codec_options.h"

const struct exchange_config *channel_config(const struct channel *ch)
{
    return &ch->x->cfg;
}

struct stopwatch *channel_watch(const struct channel *ch)
{
    return &ch->x->watch;
}

struct err *channel_err(const struct channel *ch)
{
    return ch->x->e;
}

void channel_overtaken(struct channel *ch)
{
    ch->x->totals.n_overtaken++;
}

bool channel_is_behind(const struct channel *ch, int node)
{
    return mesh_queued_for(ch->x->mesh, node) >= EXCHANGE_BACKLOG_MAX;
}

bool channel_has_left(const struct channel *ch, int node)
{
    return ch->x->peer_stats.has_left[exchange_slot(ch->x, node)];
}

void channel_pause(struct channel *ch, int node, bool on)
{
    mesh_pause(ch->x->mesh, node, on);
}

int channel_fail(struct channel *ch, const char *fmt, ...)
{
    char text[512];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return err_set(ch->x->e, ERR_CODEC, "codec %s: %s", ch->x->cfg.plugin->name, text);
}

void channel_before_call(struct channel *ch)
{
    ch->x->e->code = 0;
}

int channel_after_call(struct channel *ch, const char *callback, int rc, bool may_wait)
{
    int failed = ch->x->e->code;

    if (rc == CODEC_GO || (rc == CODEC_WAIT && may_wait))
        return rc;
    if (rc < 0 && failed < 0)
        return failed;
    return rc < 0
               ? channel_fail(ch, "its %s failed without an error message (codec_fail sets it)", callback)
               : channel_fail(ch,
                              "its %s returned %d, which is neither CODEC_GO%s nor what a call of the host "
                              "returned",
                              callback, rc, may_wait ? " nor CODEC_WAIT" : "");
}

int channel_blame(struct channel *ch, int from)
{
    struct exchange *x = ch->x;

    if (!x->cfg.goes_on || from < 0 || from == x->cfg.node)
        return x->e->code;
    if (round_agrees(ch))
        return round_accuse(ch, from);
    mesh_drop(x->mesh, from, x->e->text);
    *x->e = (struct err){0};
    return CODEC_GO;
}

struct mesh_buf *channel_encode(struct channel *ch, const char *callback,
                                int (*encode)(struct codec *, struct wire_out *), double *seconds)
{
    struct mesh_buf *b = mesh_buf_take(ch->x->mesh);
    struct stopwatch *w = &ch->x->watch;
    enum phase last;
    double start;

    if (!b) {
        err_set(ch->x->e, ERR_NOMEM, "no memory for a message of %zu bytes", ch->limit);
        return NULL;
    }
    ch->out = (struct wire_out){.bytes = b->bytes, .limit = ch->limit};
    compressing_begin_writing(ch);
    last = phase_enter(w, PHASE_ENCODE);
    start = stopwatch_since(w);
    channel_before_call(ch);
    if (channel_after_call(ch, callback, encode(&ch->codec, &ch->out), false) < 0)
        goto fail;
    if (ch->compressing.lacks_memory) {
        err_set(ch->x->e, ERR_NOMEM, "no memory for a residual of the compressors' error feedback");
        goto fail;
    }
    if (ch->out.bad) {
        channel_fail(ch, "its message is longer than the %zu bytes it declared (message_bytes)", ch->limit);
        goto fail;
    }
    b->len = ch->out.len;
    phase_enter(w, last);
    *seconds = stopwatch_since(w) - start;
    return b;
fail:
    mesh_buf_put(b);
    return NULL;
}

/* By reference if it is in a buffer, else by view. */
static int send_bytes(struct channel *ch, const struct mesh_head *h, struct mesh_buf *b, const void *bytes,
                      size_t len)
{
    struct exchange *x = ch->x;
    struct peer_traffic *p = peer_stats_make(&x->peer_stats, exchange_slot(x, h->peer));
    enum phase last = phase_enter(&x->watch, PHASE_SEND);
    double start = stopwatch_since(&x->watch);

    if (!p)
        return err_set(x->e, ERR_NOMEM, "no memory for the traffic statistics of node %d", h->peer);
    if ((b ? mesh_send(x->mesh, h, b, x->e) : mesh_send_view(x->mesh, h, bytes, len, x->e)) < 0)
        return x->e->code;
    if (x->watch.tracer)
        tracer_message(x->watch.tracer, TRACE_SENT, h->peer, ++p->n_sent, start);
    phase_enter(&x->watch, last);
    p->sent.messages++;
    p->sent.raw_bytes += len;
    p->sent.wire_bytes += len + FRAME_BYTES;
    p->sent.transfer_s += stopwatch_since(&x->watch) - start;
    x->totals.sent_messages++;
    x->totals.raw_bytes += len;
    x->totals.sent_bytes += len + FRAME_BYTES;
    return CODEC_GO;
}

int channel_send(struct channel *ch, const struct mesh_head *h, struct mesh_buf *b, double encode_s)
{
    int rc = send_bytes(ch, h, b, b->bytes, b->len);
    struct exchange_traffic *t;

    if (rc < 0)
        return rc;
    t = &peer_stats_of(&ch->x->peer_stats, exchange_slot(ch->x, h->peer))->sent;
    t->encode_s += encode_s;
    t->raw_bytes += (uint64_t)ch->compressing.saved_out;
    ch->x->totals.raw_bytes += (uint64_t)ch->compressing.saved_out;
    return CODEC_GO;
}

int channel_send_view(struct channel *ch, const struct mesh_head *h, const void *bytes, size_t len)
{
    return send_bytes(ch, h, NULL, bytes, len);
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
    p->received.messages++;
    p->received.raw_bytes += received;
    x->totals.sent_messages++;
    x->totals.recv_messages++;
    x->totals.raw_bytes += sent;
}

int channel_decode(struct channel *ch, enum phase phase, const char *callback,
                   int (*read)(struct codec *, int from, struct wire_in *), int from,
                   const struct mesh_buf *b)
{
    struct wire_in in = {.bytes = b->bytes, .len = b->len};
    enum phase last = phase_enter(&ch->x->watch, phase);
    int rc;

    ch->x->read_bytes[phase] += b->len;
    compressing_begin_reading(ch, from);
    channel_before_call(ch);
    rc = channel_after_call(ch, callback, read(&ch->codec, from, &in), !ch->rule);
    phase_enter(&ch->x->watch, last);
    return rc;
}

int channel_apply(struct channel *ch)
{
    enum phase last;
    int rc;

    if (!ch->rule->apply)
        return CODEC_GO;
    last = phase_enter(&ch->x->watch, PHASE_APPLY);
    channel_before_call(ch);
    rc = channel_after_call(ch, "apply", ch->rule->apply(&ch->codec), false);
    phase_enter(&ch->x->watch, last);
    return rc;
}

void channel_waited(struct channel *ch, int peer)
{
    struct peer_traffic *p = peer_stats_of(&ch->x->peer_stats, exchange_slot(ch->x, peer));

    p->received.transfer_s += stopwatch_now(&ch->x->watch) - ch->round.sent_at;
}

/* The job's round is done when every channel's is. */
void channel_round_done(struct channel *ch)
{
    struct exchange *x = ch->x;

    ch->codec.round++;
    if (++x->n_channels_done < x->n_channels)
        return;
    x->n_channels_done = 0;
    x->n_rounds++;
    if (x->watch.tracer)
        x->watch.tracer->round = x->n_rounds + 1;
    peer_stats_close_round(&x->peer_stats);
}

/* The parts of the model's layers that lie in [lo, hi). */
static int cut_layers(struct channel *ch, size_t lo, size_t hi)
{
    const struct exchange_config *cfg = &ch->x->cfg;
    int n = 0;

    ch->layers = calloc((size_t)cfg->n_layers + 1, sizeof *ch->layers);
    if (!ch->layers)
        return -1;
    for (int i = 0; i < cfg->n_layers; i++) {
        const struct codec_layer *whole = &cfg->layers[i];
        size_t from = whole->offset > lo ? whole->offset : lo;
        size_t to = whole->offset + whole->n < hi ? whole->offset + whole->n : hi;
        struct codec_layer *own = &ch->layers[n];

        if (from >= to)
            continue;
        *own = *whole;
        own->offset = from - lo;
        own->n = to - from;
        if (own->n < whole->n) {
            own->n_dims = 1;
            own->shape[0] = own->n;
        }
        n++;
    }
    ch->codec.layers = ch->layers;
    ch->codec.n_layers = n;
    return 0;
}

int channel_open(struct exchange *x, int id)
{
    const struct exchange_config *cfg = &x->cfg;
    const struct codec_plugin *p = cfg->plugin;
    struct channel *ch = &x->channels[id];
    int range = cfg->node < 0 ? -2 - cfg->node : id;
    size_t lo = cfg->n_servers > 0 ? collective_slice(cfg->n_params, range, cfg->n_servers) : 0;
    size_t hi = cfg->n_servers > 0 ? collective_slice(cfg->n_params, range + 1, cfg->n_servers)
                                   : cfg->n_params;

    ch->x = x;
    ch->rule = p->round;
    ch->id = (uint16_t)range;
    ch->server = cfg->node >= 0 && cfg->n_servers > 0 ? -2 - id : 0;
    ch->wake_at = INFINITY;
    ch->codec = (struct codec){.node = cfg->node,
                               .n_workers = cfg->n_workers,
                               .n_servers = cfg->n_servers,
                               .server = cfg->n_servers > 0 ? -2 - range : 0,
                               .n_blocks = cfg->blocks->n_blocks,
                               .redundancy = cfg->blocks->redundancy,
                               .is_sync = cfg->is_sync,
                               .n_steps = cfg->n_steps,
                               .block = -1,
                               .n_params = hi - lo,
                               .params = cfg->params + lo,
                               .grads = cfg->grads + lo,
                               .host = &channel_host,
                               .lr_factor = 1};
    rng_init(&ch->rng, cfg->seed, (uint64_t)(cfg->node + 65536), (uint64_t)range);
    ch->codec.state = calloc(1, p->state_size ? p->state_size : 1);
    ch->zeros = calloc(CHANNEL_ZEROS_MAX, sizeof *ch->zeros);
    if (!ch->codec.state || !ch->zeros || cut_layers(ch, lo, hi) < 0)
        return err_set(x->e, ERR_NOMEM, "no memory for codec %s", p->name);
    if (codec_options_set(&(struct codec_options){p->options, ch->codec.state}, 1, cfg->options, x->e) < 0)
        return err_at(x->e, "codec %s", p->name);
    ch->limit = p->message_bytes ? p->message_bytes(&ch->codec) : 64 + 4 * ch->codec.n_params;
    if (compressing_open(ch, x->e) < 0)
        return x->e->code;
    if (ch->rule ? round_open(ch) < 0 : collecting_open(ch, x->e) < 0)
        return x->e->code;
    if (!p->open)
        return CODEC_GO;
    channel_before_call(ch);
    return channel_after_call(ch, "open", p->open(&ch->codec), false);
}

void channel_clear(struct channel *ch)
{
    for (size_t z = 0; z < ch->n_zeros; z++)
        free(ch->zeros[z].v);
    free(ch->zeros);
    free(ch->layers);
    compressing_clear(&ch->compressing);
    collecting_clear(ch);
    free(ch->codec.state);
}
