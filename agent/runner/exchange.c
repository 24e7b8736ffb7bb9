#include "agent/runner/exchange.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/runner/channel.h"
#include "shared/clock.h"

enum { ZEROS_MAX = 64 };

struct exchange {
    struct exchange_config cfg;
    struct mesh *mesh;
    struct err *e; /* of the call that is under way */
    int n_channels;
    struct channel *channels;
    int n_nodes;
    bool *has_left; /* (n_nodes), by slot: said good-bye, or is lost */
    int n_lost;     /* of the workers */
    struct exchange_totals totals;
    struct stopwatch watch;
    uint64_t *n_said, *n_heard;               /* (n_nodes), by slot: messages so far, for the trace */
    struct exchange_traffic *sent, *received; /* (n_nodes), by slot: of the round under way */
    struct exchange_traffic *sent_done, *received_done;
    uint64_t n_rounds, n_rounds_told;
    int n_channels_done; /* channels that have closed the round */
};

static int slot_of(const struct exchange *x, int node)
{
    return node >= 0 ? node : x->cfg.n_workers - 2 - node;
}

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
    return ch->x->has_left[slot_of(ch->x, node)];
}

void channel_pause(struct channel *ch, int node, bool on)
{
    mesh_pause(ch->x->mesh, node, on);
}

void channel_drop_buf(struct channel *ch, struct mesh_buf *b)
{
    if (b)
        mesh_buf_put(ch->x->mesh, b);
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

struct mesh_buf *channel_encode(struct channel *ch, int (*encode)(struct codec *, struct wire_out *),
                                double *seconds)
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
    last = phase_enter(w, PHASE_ENCODE);
    start = w->since;
    if (encode(&ch->codec, &ch->out) < 0)
        goto fail;
    if (ch->out.bad) {
        channel_fail(ch, "its message is longer than the %zu bytes it declared (message_bytes)", ch->limit);
        goto fail;
    }
    b->len = ch->out.len;
    phase_enter(w, last);
    *seconds = w->since - start;
    return b;
fail:
    mesh_buf_put(ch->x->mesh, b);
    return NULL;
}

/* By reference where it is in a buffer, by view where not. */
static int hand_over(struct channel *ch, const struct mesh_head *h, struct mesh_buf *b, const void *bytes,
                     size_t len)
{
    struct exchange *x = ch->x;
    int slot = slot_of(x, h->peer);
    struct exchange_traffic *t = &x->sent[slot];
    enum phase last = phase_enter(&x->watch, PHASE_SEND);
    double start = x->watch.since;

    if ((b ? mesh_send(x->mesh, h, b, x->e) : mesh_send_view(x->mesh, h, bytes, len, x->e)) < 0)
        return x->e->code;
    if (x->watch.tracer)
        tracer_message(x->watch.tracer, TRACE_SENT, h->peer, ++x->n_said[slot], start);
    phase_enter(&x->watch, last);
    t->messages++;
    t->raw_bytes += len;
    t->wire_bytes += len + FRAME_BYTES;
    t->transfer_s += x->watch.since - start;
    x->totals.sent_messages++;
    x->totals.raw_bytes += len;
    x->totals.sent_bytes += len + FRAME_BYTES;
    return CODEC_GO;
}

int channel_send(struct channel *ch, const struct mesh_head *h, struct mesh_buf *b, double encode_s)
{
    ch->x->sent[slot_of(ch->x, h->peer)].encode_s += encode_s;
    return hand_over(ch, h, b, b->bytes, b->len);
}

int channel_send_view(struct channel *ch, const struct mesh_head *h, const void *bytes, size_t len)
{
    return hand_over(ch, h, NULL, bytes, len);
}

void channel_received(struct channel *ch, int from, size_t len)
{
    struct exchange_traffic *t = &ch->x->received[slot_of(ch->x, from)];

    t->messages++;
    t->raw_bytes += len;
    t->wire_bytes += len + FRAME_BYTES;
    ch->x->totals.recv_messages++;
    ch->x->totals.recv_bytes += len + FRAME_BYTES;
}

void channel_shared(struct channel *ch, int peer, size_t sent, size_t received)
{
    struct exchange *x = ch->x;
    int slot = slot_of(x, peer);

    x->sent[slot].messages++;
    x->sent[slot].raw_bytes += sent;
    x->received[slot].messages++;
    x->received[slot].raw_bytes += received;
    x->totals.sent_messages++;
    x->totals.recv_messages++;
    x->totals.raw_bytes += sent;
}

int channel_decode(struct channel *ch, enum phase phase,
                   int (*read)(struct codec *, int from, struct wire_in *), int from,
                   const struct mesh_buf *b)
{
    struct wire_in in = {.bytes = b->bytes, .len = b->len};
    enum phase last = phase_enter(&ch->x->watch, phase);
    int rc = read(&ch->codec, from, &in);

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
    rc = ch->rule->apply(&ch->codec);
    phase_enter(&ch->x->watch, last);
    return rc;
}

void channel_waited(struct channel *ch, int peer)
{
    ch->x->received[slot_of(ch->x, peer)].transfer_s += clock_now() - ch->round.said_at;
}

/* The job's round is done when every channel's is. */
void channel_round_done(struct channel *ch)
{
    struct exchange *x = ch->x;
    size_t bytes = (size_t)x->n_nodes * sizeof *x->sent;

    ch->codec.round++;
    if (++x->n_channels_done < x->n_channels)
        return;
    x->n_channels_done = 0;
    x->n_rounds++;
    if (x->watch.tracer)
        x->watch.tracer->round = x->n_rounds + 1;
    memcpy(x->sent_done, x->sent, bytes);
    memcpy(x->received_done, x->received, bytes);
    memset(x->sent, 0, bytes);
    memset(x->received, 0, bytes);
}

static float *host_zeros(struct codec *c, size_t n)
{
    struct channel *ch = (struct channel *)c;
    float *p;

    if (ch->n_zeros == ZEROS_MAX)
        return NULL;
    p = calloc(n ? n : 1, sizeof *p);
    if (p)
        ch->zeros[ch->n_zeros++] = (struct codec_vector){p, n};
    return p;
}

static float host_uniform(struct codec *c)
{
    return rng_uniform(&((struct channel *)c)->rng);
}

static int host_fail(struct codec *c, const char *fmt, ...)
{
    char text[512];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return channel_fail((struct channel *)c, "%s", text);
}

static void host_log(struct codec *c, const char *fmt, ...)
{
    char text[512];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    fprintf(stderr, "codec %s: %s\n", ((struct channel *)c)->x->cfg.plugin->name, text);
}

static struct wire_out *host_message(struct codec *c)
{
    struct channel *ch = (struct channel *)c;

    channel_drop_buf(ch, ch->draft);
    ch->draft = mesh_buf_take(ch->x->mesh);
    ch->out = (struct wire_out){.bytes = ch->draft ? ch->draft->bytes : NULL,
                                .limit = ch->draft ? ch->limit : 0};
    return &ch->out;
}

static int host_send(struct codec *c, int to)
{
    struct channel *ch = (struct channel *)c;
    /* A server works on one range: what goes to it is of that range, whoever sends it. */
    struct mesh_head h = {
        .kind = FRAME_EVENT, .peer = to, .channel = to < 0 ? (uint16_t)(-2 - to) : ch->id, .round = c->step};

    if (!ch->draft)
        return channel_fail(ch, "send() without a message()");
    if (ch->out.bad)
        return channel_fail(ch, "its message is longer than the %zu bytes it declared (message_bytes)",
                            ch->limit);
    if (to == c->node || !exchange_talks_to(ch->x, to))
        return channel_fail(ch, "node %d has no link to node %d", c->node, to);
    if (ch->server && to < 0 && to != ch->server)
        return channel_fail(ch, "this range is served by node %d, not by node %d", ch->server, to);
    ch->draft->len = ch->out.len;
    return channel_send(ch, &h, ch->draft, 0);
}

static const struct codec_host host = {.zeros = host_zeros,
                                       .uniform = host_uniform,
                                       .fail = host_fail,
                                       .log = host_log,
                                       .message = host_message,
                                       .send = host_send,
                                       .all_reduce = collecting_all_reduce,
                                       .slice = collecting_slice,
                                       .reduce_scatter = collecting_reduce_scatter,
                                       .all_gather = collecting_all_gather,
                                       .broadcast = collecting_broadcast,
                                       .all_to_all = collecting_all_to_all};

static int channel_open(struct exchange *x, int id)
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
    ch->codec = (struct codec){.node = cfg->node,
                               .n_workers = cfg->n_workers,
                               .n_servers = cfg->n_servers,
                               .server = cfg->n_servers > 0 ? -2 - range : 0,
                               .n_blocks = cfg->blocks->n_blocks,
                               .is_sync = cfg->is_sync,
                               .n_steps = cfg->n_steps,
                               .n_params = hi - lo,
                               .params = cfg->params + lo,
                               .grads = cfg->grads + lo,
                               .host = &host,
                               .redundancy = cfg->blocks->redundancy};
    ch->limit = p->message_bytes ? p->message_bytes(&ch->codec) : 64 + 4 * ch->codec.n_params;
    rng_init(&ch->rng, cfg->seed, (uint64_t)(cfg->node + 65536), (uint64_t)range);
    ch->codec.state = calloc(1, p->state_size ? p->state_size : 1);
    ch->zeros = calloc(ZEROS_MAX, sizeof *ch->zeros);
    if (!ch->codec.state || !ch->zeros)
        return err_set(x->e, ERR_NOMEM, "no memory for codec %s", p->name);
    if (ch->rule ? round_open(ch) < 0 : collecting_open(ch, x->e) < 0)
        return x->e->code;
    return p->open ? p->open(&ch->codec) : CODEC_GO;
}

static int check_config(const struct exchange_config *cfg, struct err *e)
{
    const struct codec_round *r = cfg->plugin->round;

    if (r && cfg->n_servers > 0 && !r->reply)
        return err_set(e, ERR_CODEC, "codec %s has no server side; leave the parameter servers out",
                       cfg->plugin->name);
    if (cfg->goes_on && cfg->plugin->events)
        return err_set(e, ERR_CODEC, "codec %s is not told of lost nodes and cannot go on without them",
                       cfg->plugin->name);
    if (cfg->goes_on && cfg->is_sync && cfg->n_servers == 0 && cfg->n_workers > 1 &&
        !(r->per_block && cfg->blocks->redundancy > 1)) {
        err_set(e, ERR_CODEC,
                "codec %s between workers in ssgd needs the word of every worker in every round",
                cfg->plugin->name);
        return err_hint(e, "With parameter servers, --sync asgd%s it can go on without some.",
                        r->per_block ? " or --redundancy 2" : "");
    }
    if (r && !r->per_block && cfg->blocks->n_blocks != cfg->n_workers && r->before_update)
        return err_set(e, ERR_CODEC,
                       "codec %s exchanges one gradient per worker; it cannot use redundant blocks",
                       cfg->plugin->name);
    return 0;
}

int exchange_new(struct exchange **out, const struct exchange_config *cfg, struct err *e)
{
    struct exchange *x = calloc(1, sizeof *x);

    if (!x)
        return err_set(e, ERR_NOMEM, "no memory for the exchange");
    x->cfg = *cfg;
    x->e = e;
    x->n_nodes = cfg->n_workers + cfg->n_servers;
    x->n_channels = cfg->node >= 0 && cfg->n_servers > 0 ? cfg->n_servers : 1;
    x->channels = calloc((size_t)x->n_channels, sizeof *x->channels);
    x->sent = calloc(4 * (size_t)x->n_nodes, sizeof *x->sent);
    x->has_left = calloc((size_t)x->n_nodes, sizeof *x->has_left);
    x->n_said = calloc(2 * (size_t)x->n_nodes, sizeof *x->n_said);
    x->watch.since = clock_now();
    if (!x->channels || !x->sent || !x->has_left || !x->n_said) {
        err_set(e, ERR_NOMEM, "no memory for the exchange");
        goto fail;
    }
    x->n_heard = x->n_said + x->n_nodes;
    x->received = x->sent + x->n_nodes;
    x->sent_done = x->received + x->n_nodes;
    x->received_done = x->sent_done + x->n_nodes;
    if (check_config(cfg, e) < 0)
        goto fail;
    for (int i = 0; i < x->n_channels; i++)
        if (channel_open(x, i) < 0)
            goto fail;
    *out = x;
    return 0;
fail:
    exchange_free(x);
    return e->code;
}

void exchange_detach(struct exchange *x)
{
    for (int i = 0; x->channels && i < x->n_channels; i++) {
        struct channel *ch = &x->channels[i];

        round_clear(ch);
        channel_drop_buf(ch, ch->draft);
        ch->draft = NULL;
    }
}

void exchange_free(struct exchange *x)
{
    if (!x)
        return;
    exchange_detach(x);
    for (int i = 0; x->channels && i < x->n_channels; i++) {
        struct channel *ch = &x->channels[i];

        for (size_t z = 0; z < ch->n_zeros; z++)
            free(ch->zeros[z].v);
        free(ch->zeros);
        collecting_clear(ch);
        free(ch->codec.state);
    }
    free(x->channels);
    free(x->sent);
    free(x->n_said);
    free(x->has_left);
    free(x);
}

struct channel *exchange_channel(struct exchange *x, int i)
{
    return i < x->n_channels ? &x->channels[i] : NULL;
}

void exchange_set_rounds(struct exchange *x, uint64_t n)
{
    x->n_rounds = x->n_rounds_told = n;
}

uint64_t exchange_rounds(const struct exchange *x)
{
    return x->n_rounds;
}

size_t exchange_limit(const struct exchange *x)
{
    size_t limit = 0;

    for (int i = 0; i < x->n_channels; i++)
        if (x->channels[i].limit > limit)
            limit = x->channels[i].limit;
    return limit;
}

bool exchange_talks_to(const struct exchange *x, int node)
{
    bool is_star = x->cfg.plugin->round && x->cfg.n_servers > 0;

    if (node == x->cfg.node || node >= x->cfg.n_workers || node == -1 || node < -1 - x->cfg.n_servers)
        return false;
    return is_star ? (node < 0) != (x->cfg.node < 0) : true;
}

void exchange_attach(struct exchange *x, struct mesh *m)
{
    x->mesh = m;
    m->ends_stuck = x->cfg.plugin->round && !x->cfg.is_sync; /* nobody else would time it */
    for (int i = 0; i < x->n_channels; i++)
        collecting_attach(&x->channels[i], m);
}

bool exchange_collects(const struct exchange *x)
{
    return x->cfg.n_servers == 0 && x->cfg.n_workers > 1 && x->cfg.plugin->events &&
           x->cfg.plugin->events->on_collective;
}

void exchange_share(struct exchange *x, struct arena *a)
{
    struct channel *ch = &x->channels[0]; /* there are no servers */

    ch->collecting.arena = a;
    x->cfg.grads = ch->codec.grads = arena_in(a);
}

const float *exchange_gradient(const struct exchange *x)
{
    const float *own = x->n_channels == 1 ? x->channels[0].codec.gradient : NULL;

    return own ? own : x->cfg.grads;
}

bool exchange_wants_blocks(const struct exchange *x)
{
    return x->cfg.plugin->round && x->cfg.plugin->round->per_block;
}

static bool any_waits(const struct exchange *x)
{
    for (int i = 0; i < x->n_channels; i++)
        if (x->channels[i].is_waiting)
            return true;
    return false;
}

/* What the call under way comes to: GO, WAIT, or an error where the wait would never end. */
static int outcome(struct exchange *x)
{
    char what[128];

    for (int i = 0; i < x->n_channels; i++) {
        const struct channel *ch = &x->channels[i];

        if (!ch->is_waiting || !(ch->rule ? round_is_hopeless(ch) : collecting_is_hopeless(ch)))
            continue;
        exchange_waits_for(x, what, sizeof what);
        return err_set(x->e, ERR_LOST, "%s cannot come: the node has left", what);
    }
    return any_waits(x) ? CODEC_WAIT : CODEC_GO;
}

/* An event rule's callback writes what messages it likes: that is encoding. */
static int call_event(struct channel *ch, int (*callback)(struct codec *))
{
    enum phase last = phase_enter(&ch->x->watch, PHASE_ENCODE);
    int rc = callback(&ch->codec);

    phase_enter(&ch->x->watch, last);
    return rc;
}

/* Calls `of_round` or the event rule's callback on each channel. */
static int on_each(struct exchange *x, int (*of_round)(struct channel *), int (*of_events)(struct codec *),
                   struct err *e)
{
    x->e = e;
    for (int i = 0; i < x->n_channels; i++) {
        struct channel *ch = &x->channels[i];
        int rc = ch->rule ? of_round(ch) : of_events ? call_event(ch, of_events) : CODEC_GO;

        ch->is_waiting = rc == CODEC_WAIT;
        if (rc < 0 || collecting_tell(ch) < 0)
            return e->code;
    }
    return outcome(x);
}

int exchange_on_block(struct exchange *x, int block, struct err *e)
{
    x->e = e;
    for (int i = 0; i < x->n_channels; i++)
        if (x->channels[i].rule && round_on_block(&x->channels[i], block) < 0)
            return e->code;
    return CODEC_GO;
}

int exchange_on_grad(struct exchange *x, size_t n_samples, struct err *e)
{
    for (int i = 0; i < x->n_channels; i++) {
        x->channels[i].codec.samples += (float)n_samples;
        x->channels[i].codec.gradient = NULL;
    }
    return on_each(x, round_on_grad, x->cfg.plugin->events ? x->cfg.plugin->events->on_grad : NULL, e);
}

int exchange_on_step(struct exchange *x, struct err *e)
{
    int rc;

    for (int i = 0; i < x->n_channels; i++)
        x->channels[i].codec.step++;
    rc = on_each(x, round_on_step, x->cfg.plugin->events ? x->cfg.plugin->events->on_step : NULL, e);
    if (x->cfg.plugin->events) /* an event rule has no rounds of its own: its traffic is counted by step */
        for (int i = 0; i < x->n_channels; i++)
            channel_round_done(&x->channels[i]);
    return rc;
}

static int on_message(struct exchange *x, struct mesh_event *ev)
{
    int index = x->cfg.node < 0 ? 0 : ev->head.channel;
    struct channel *ch = &x->channels[index < x->n_channels ? index : 0];
    const struct codec_events *events = x->cfg.plugin->events;
    int rc = CODEC_GO;

    if (ev->head.channel != ch->id) {
        mesh_buf_put(x->mesh, ev->buf);
        return channel_fail(ch, "node %d sent a message for channel %u", ev->head.peer, ev->head.channel);
    }
    if (ch->rule) {
        rc = round_on_message(ch, &ev->head, ev->buf);
    } else {
        if (ev->head.kind != FRAME_EVENT)
            rc = channel_fail(ch, "node %d sent a message that is not an event", ev->head.peer);
        else if (events->on_message)
            rc = channel_decode(ch, PHASE_DECODE, events->on_message, ev->head.peer, ev->buf);
        channel_received(ch, ev->head.peer, ev->buf->len);
        mesh_buf_put(x->mesh, ev->buf);
        if (x->cfg.node < 0) /* a server takes no steps: its traffic is counted by message */
            channel_round_done(ch);
    }
    /* A word of the next round that comes early does not end a wait for this one. */
    if (rc == CODEC_GO && !(ch->rule && (ch->round.has_said || ch->round.awaits_reply)))
        ch->is_waiting = false;
    return rc;
}

static int on_loss(struct exchange *x, const struct mesh_event *ev)
{
    int n_left = x->cfg.n_workers - (x->n_lost += ev->head.peer >= 0);
    char what[128];

    x->has_left[slot_of(x, ev->head.peer)] = true;
    err_set(x->e, ERR_LOST, "node %d is lost: %s", ev->head.peer, ev->why);
    if (!x->cfg.goes_on || ev->head.peer < 0) {
        exchange_waits_for(x, what, sizeof what);
        return any_waits(x) ? err_hint(x->e, "This node was waiting for %s.", what) : x->e->code;
    }
    if (n_left < x->cfg.min_nodes)
        return err_set(x->e, ERR_LOST, "node %d is lost: %s; %d workers are left of at least %d",
                       ev->head.peer, ev->why, n_left, x->cfg.min_nodes);
    fprintf(stderr, "%s; going on without it\n", x->e->text);
    *x->e = (struct err){0};
    for (int i = 0; i < x->n_channels; i++)
        if (x->channels[i].rule && round_on_loss(&x->channels[i]) < 0)
            return x->e->code;
    return 0;
}

int exchange_on_event(struct exchange *x, struct mesh_event *ev, struct err *e)
{
    x->e = e;
    switch (ev->kind) {
    case MESH_NOTHING:
        break;
    case MESH_MESSAGE:
        if (x->watch.tracer)
            tracer_message(x->watch.tracer, TRACE_RECEIVED, ev->head.peer,
                           ++x->n_heard[slot_of(x, ev->head.peer)], clock_now());
        if (ev->head.kind != FRAME_PIECE && on_message(x, ev) < 0)
            return e->code;
        break;
    case MESH_LEFT:
        x->has_left[slot_of(x, ev->head.peer)] = true;
        break;
    case MESH_LOST:
        if (on_loss(x, ev) < 0)
            return e->code;
        break;
    }
    for (int i = 0; i < x->n_channels; i++)
        if (collecting_on_event(&x->channels[i], ev, e) < 0)
            return e->code;
    return outcome(x);
}

void exchange_waits_for(const struct exchange *x, char *out, size_t size)
{
    snprintf(out, size, "a message");
    for (int i = 0; i < x->n_channels; i++)
        if (x->channels[i].is_waiting) {
            (x->channels[i].rule ? round_waits_for : collecting_waits_for)(&x->channels[i], out, size);
            return;
        }
}

bool exchange_is_over(const struct exchange *x)
{
    for (int w = 0; w < x->cfg.n_workers; w++)
        if (!x->has_left[w])
            return false;
    return true;
}

const struct exchange_totals *exchange_totals(const struct exchange *x)
{
    return &x->totals;
}

struct stopwatch *exchange_watch(struct exchange *x)
{
    return &x->watch;
}

bool exchange_round_done(struct exchange *x, uint64_t *round)
{
    if (x->n_rounds_told == x->n_rounds)
        return false;
    x->n_rounds_told = x->n_rounds;
    *round = x->n_rounds;
    return true;
}

const struct exchange_traffic *exchange_sent(const struct exchange *x, int peer)
{
    return &x->sent_done[slot_of(x, peer)];
}

const struct exchange_traffic *exchange_received(const struct exchange *x, int peer)
{
    return &x->received_done[slot_of(x, peer)];
}
