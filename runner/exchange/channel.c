/* channel -- one codec at work: opens it, calls its functions, sends and receives its messages, and counts
 * these. Only this file, combining.c (a rule that combines) and collecting.c call functions of the codec.
 *
 * The stopwatch stays in its phase after a message could not be written or sent, because the node then
 * ends. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "runner/exchange/exchange_private.h"
#include "shared/plugin/codec_options.h"

struct err *channel_err(const struct channel *ch)
{
    return ch->x->e;
}

void channel_set_err(struct channel *ch, struct err *e)
{
    ch->x->e = e;
}

void channel_await(struct channel *ch, int node)
{
    ch->awaited = node;
    ch->is_waiting = node >= 0;
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

int channel_too_long(struct channel *ch)
{
    return channel_fail(ch,
                        codec_more(ch->x->cfg.plugin)->message_bytes
                            ? "its message is longer than %zu bytes, which its .message_bytes declares"
                            : "its message is longer than %zu bytes, the room without .message_bytes: 64 + 4 "
                              "n_params",
                        ch->limit);
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

int channel_drop_sender(struct channel *ch, int from)
{
    struct exchange *x = ch->x;

    if (!x->cfg.goes_on || from < 0 || from == x->cfg.node)
        return x->e->code;
    if (round_agrees(ch))
        return round_drop_sender(ch, from);
    mesh_drop(x->mesh, from, x->e->text);
    *x->e = (struct err){0};
    return CODEC_GO;
}

int channel_call(struct channel *ch, enum phase phase, const char *callback, int (*f)(struct channel *))
{
    enum phase last = phase_call(ch->x->watch, phase, callback);
    int rc;

    channel_before_call(ch);
    rc = channel_after_call(ch, callback, f(ch), true);
    phase_enter(ch->x->watch, last);
    return rc;
}

struct mesh_buf *channel_encode(struct channel *ch, const char *callback,
                                int (*encode)(struct channel *, struct wire_out *), double *seconds)
{
    struct mesh_buf *b = mesh_buf_take(ch->x->mesh);
    struct stopwatch *w = ch->x->watch;
    enum phase last;
    double start;

    if (!b) {
        err_set(ch->x->e, ERR_NOMEM, "no memory for a message of %zu bytes", ch->limit);
        return NULL;
    }
    ch->out = (struct wire_out){.bytes = b->bytes, .limit = ch->limit};
    compressing_begin_writing(&ch->compressing);
    last = phase_call(w, PHASE_ENCODE, callback);
    start = stopwatch_since(w);
    channel_before_call(ch);
    if (channel_after_call(ch, callback, encode(ch, &ch->out), false) < 0)
        goto fail;
    if (ch->compressing.lacks_memory) {
        err_set(ch->x->e, ERR_NOMEM, "no memory for a residual of the compressors' error feedback");
        goto fail;
    }
    if (ch->out.bad) {
        channel_too_long(ch);
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

int channel_decode(struct channel *ch, enum phase phase, const char *callback,
                   int (*read)(struct channel *, int from, struct wire_in *), int from,
                   const struct mesh_buf *b)
{
    struct wire_in in = {.bytes = b->bytes, .len = b->len};
    enum phase last = phase_call(ch->x->watch, phase, callback);
    int rc;

    ch->x->read_bytes[phase] += b->len;
    compressing_begin_reading(&ch->compressing, from);
    channel_before_call(ch);
    rc = channel_after_call(ch, callback, read(ch, from, &in), !ch->rule);
    if (rc >= 0 && ch->x->e->code == ERR_NUMERIC) /* the codec ignores that get_vector() has failed */
        rc = ERR_NUMERIC;
    if (rc >= 0)
        compressing_end_reading(&ch->compressing);
    phase_enter(ch->x->watch, last);
    return rc;
}

int channel_apply(struct channel *ch)
{
    enum phase last;
    int rc;

    if (!ch->rule->apply)
        return CODEC_GO;
    last = phase_call(ch->x->watch, PHASE_APPLY, "apply");
    channel_before_call(ch);
    rc = channel_after_call(ch, "apply", ch->rule->apply(ch), false);
    phase_enter(ch->x->watch, last);
    return rc;
}

/* Messages to and from peers, and the statistics of them. */

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

/* Sends the buffer b, or, if b is NULL, a view of `bytes`. `saved`: bytes that compression saved. */
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

void channel_begin_local(struct channel *ch)
{
    ch->codec.samples = 0;
    ch->codec.n_local = 0;
    ch->codec.lr_sum = 0;
}

/* The round of the exchange is closed when every channel has closed its own. */
void channel_round_done(struct channel *ch)
{
    struct exchange *x = ch->x;

    ch->run.round++;
    if (++x->n_channels_done < x->n_channels)
        return;
    x->n_channels_done = 0;
    x->n_rounds++;
    tracer_set_round(x->watch->tracer, x->n_rounds + 1);
    peer_stats_close_round(&x->peer_stats);
}

/* A codec that runs in rounds: its functions as a round rule (round.h). */

static const struct codec_round *round_of(const struct channel *ch)
{
    return codec_more(ch->x->cfg.plugin)->round;
}

static int call_encode(struct channel *ch, struct wire_out *out)
{
    return round_of(ch)->encode(&ch->codec, out);
}

static int call_merge(struct channel *ch, int from, struct wire_in *in)
{
    return round_of(ch)->merge(&ch->codec, from, in);
}

static int call_apply(struct channel *ch)
{
    return round_of(ch)->apply(&ch->codec);
}

static int call_reply(struct channel *ch, struct wire_out *out)
{
    return round_of(ch)->reply(&ch->codec, out);
}

static int call_adopt(struct channel *ch, int server, struct wire_in *in)
{
    (void)server;
    return round_of(ch)->adopt(&ch->codec, in);
}

struct round_rule channel_round_rule(const struct codec_round *r)
{
    return (struct round_rule){.before_update = r->before_update,
                               .per_block = r->per_block,
                               .encode = call_encode,
                               .merge = call_merge,
                               .apply = r->apply ? call_apply : NULL,
                               .reply = call_reply,
                               .adopt = call_adopt};
}

/* An event rule: its functions as the handlers of a channel. */

static const struct codec_events *events_of(const struct channel *ch)
{
    return codec_more(ch->x->cfg.plugin)->events;
}

/* A callback may write messages, so it is timed as encoding. */
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
    (void)block; /* the codec reads it in run.block */
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
    if (ch->run.node < 0) /* a server takes no steps: each message is a round of its statistics */
        channel_round_done(ch);
    return rc;
}

struct channel_handlers channel_event_handlers(const struct codec_events *e)
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
                                     .cannot_complete = collecting_cannot_complete,
                                     .awaits = collecting_awaits,
                                     .waits_for = collecting_waits_for,
                                     .counts_steps = true,
                                     .is_quiescent = e->is_quiescent_between_steps};
}

/* Opening. */

/* Lists the parts of the model's layers that lie in [lo, hi). */
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
    ch->n_layers = n;
    ch->run.layers = ch->layers;
    while (n > 0 && ch->layers[n - 1].offset >= ch->codec.n_params && ch->codec.n_params < ch->n_params)
        n--;
    ch->run.n_layers = n;
    return 0;
}

/* The number of parameters in the range without running statistics, which a rule that combines does not
 * see. */
static size_t trained_of(const struct exchange_config *cfg, size_t lo, size_t hi)
{
    size_t n_trained = cfg->n_params - cfg->n_statistics, end = n_trained < hi ? n_trained : hi;

    return end > lo ? end - lo : 0;
}

/* Where the range of server k (from 0) begins. Without servers there is one range, the whole model. */
static size_t range_begin(const struct exchange_config *cfg, int k)
{
    if (cfg->ranges)
        return cfg->ranges[k];
    return collective_slice(cfg->n_params, k, cfg->n_servers > 0 ? cfg->n_servers : 1);
}

static size_t message_bytes(struct channel *ch)
{
    enum phase last = phase_call(ch->x->watch, PHASE_APPLY, "message_bytes");
    size_t n = codec_more(ch->x->cfg.plugin)->message_bytes(&ch->codec);

    phase_enter(ch->x->watch, last);
    return n;
}

int channel_open(struct exchange *x, int id)
{
    const struct exchange_config *cfg = &x->cfg;
    const struct codec_plugin *p = cfg->plugin;
    struct channel *ch = &x->channels[id];
    int range = cfg->node < 0 ? -2 - cfg->node : id;
    size_t lo = range_begin(cfg, range), hi = range_begin(cfg, range + 1);
    enum phase last;
    int rc;

    ch->x = x;
    ch->n_params = hi - lo;
    ch->n_trained = trained_of(cfg, lo, hi);
    ch->rule = x->rule;
    ch->id = (uint16_t)range;
    ch->server = cfg->node >= 0 && cfg->n_servers > 0 ? -2 - id : 0;
    ch->wake_at = INFINITY;
    ch->awaited = -1;
    ch->codec = (struct codec){.n_workers = cfg->n_workers,
                               .is_sync = cfg->is_sync,
                               .n_params = p->combine ? ch->n_trained : ch->n_params,
                               .params = cfg->params + lo,
                               .grads = cfg->grads + lo,
                               .fail_with = channel_host_fail,
                               .run = &ch->run};
    ch->run = (struct codec_run){.node = cfg->node,
                                 .n_servers = cfg->n_servers,
                                 .server = cfg->n_servers > 0 ? -2 - range : 0,
                                 .n_blocks = cfg->blocks->n_blocks,
                                 .redundancy = cfg->blocks->redundancy,
                                 .n_steps = cfg->n_steps,
                                 .block = -1,
                                 .loss = NAN,
                                 .evaluation = {.loss = NAN, .accuracy = NAN},
                                 .host = &channel_host,
                                 .lr_factor = 1};
    rng_init(&ch->rng, cfg->seed, (uint64_t)(cfg->node + 65536), (uint64_t)range);
    ch->codec.state = calloc(1, p->state_size ? p->state_size : 1);
    ch->zeros = calloc(CHANNEL_ZEROS_MAX, sizeof *ch->zeros);
    if (!ch->codec.state || !ch->zeros || cut_layers(ch, lo, hi) < 0)
        return err_set(x->e, ERR_NOMEM, "no memory for codec %s", p->name);
    if (codec_options_set(&(struct codec_options){p->options, ch->codec.state}, 1, cfg->options, x->e) < 0)
        return err_at(x->e, "codec %s", p->name);
    ch->limit = p->combine                     ? combining_limit(p->combine, ch->n_params)
                : codec_more(p)->message_bytes ? message_bytes(ch)
                                               : 64 + 4 * ch->codec.n_params;
    if (compressing_open(ch, x->e) < 0)
        return x->e->code;
    if (ch->rule ? round_open(ch) < 0 : collecting_open(ch, x->e) < 0)
        return x->e->code;
    if (whole_open(ch) < 0 || combining_open(ch, x->e) < 0)
        return x->e->code;
    channel_before_call(ch);
    for (const size_t *at = p->vectors; at && *at != SIZE_MAX; at++)
        if (channel_host.zeros(&ch->codec, (float **)(void *)((char *)ch->codec.state + *at),
                               ch->codec.n_params) < 0)
            return x->e->code;
    if (!p->open)
        return CODEC_GO;
    last = phase_call(ch->x->watch, PHASE_APPLY, "open");
    rc = channel_after_call(ch, "open", p->open(&ch->codec), false);
    phase_enter(ch->x->watch, last);
    return rc;
}

void channel_clear(struct channel *ch)
{
    for (size_t z = 0; z < ch->n_zeros; z++)
        free(ch->zeros[z].v);
    free(ch->zeros);
    free(ch->layers);
    reducing_clear(&ch->reducing);
    compressing_clear(&ch->compressing);
    combining_clear(&ch->combining);
    whole_clear(ch);
    collecting_clear(ch);
    free(ch->codec.state);
}
