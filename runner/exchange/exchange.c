/* exchange -- what an exchange does while its job runs: steps, events of the mesh, waits, and the nodes that
 * leave or are lost. exchange_open.c creates it. */
#include "runner/exchange/exchange.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "nn/optimizer.h"
#include "runner/exchange/exchange_private.h"
#include "runner/exchange/exchange_step.h"

struct channel *exchange_channel(struct exchange *x, int i)
{
    return i < x->n_channels ? &x->channels[i] : NULL;
}

bool exchange_has_left(const struct exchange *x, int node)
{
    return x->peer_stats.has_left[exchange_slot(x, node)];
}

const struct combine_path *exchange_path(const struct exchange *x)
{
    return x->path;
}

void exchange_set_rounds(struct exchange *x, uint64_t n)
{
    x->n_rounds = x->n_rounds_notified = n;
}

uint64_t exchange_rounds(const struct exchange *x)
{
    return x->n_rounds;
}

bool exchange_gives_gradient(const struct exchange *x)
{
    return !exchange_has_local_steps(x);
}

bool exchange_reads_gradient(const struct exchange *x)
{
    const struct codec_plugin *p = x->cfg.plugin;
    const struct codec_events *events = codec_more(p)->events;

    if (p->combine)
        return p->combine->when == CODEC_EACH_STEP || p->combine->on_gradient;
    return events ? events->on_grad || events->on_block : exchange_gives_gradient(x);
}

bool exchange_reads_params(const struct exchange *x)
{
    const struct codec_combine *r = x->cfg.plugin->combine;
    uint64_t step = x->channels[0].run.step + 1;

    if (!r || !x->cfg.is_sync || r->on_gradient)
        return true;
    if (r->when == CODEC_EACH_STEP)
        return r->contribute || r->apply;
    return step % x->cfg.local_steps == 0 || step == x->cfg.n_steps;
}

uint64_t exchange_every(const struct exchange *x)
{
    return exchange_has_local_steps(x) ? x->cfg.local_steps : 1;
}

bool exchange_take_move(struct exchange *x)
{
    bool has_closed = x->n_rounds != x->n_rounds_moved;

    x->n_rounds_moved = x->n_rounds;
    if (!x->cfg.plugin->combine || !x->cfg.is_sync)
        return true;
    return has_closed && exchange_has_local_steps(x);
}

bool exchange_shows_gradient(const struct exchange *x)
{
    const struct codec_combine *r = x->cfg.plugin->combine;

    return !exchange_gives_gradient(x) || (r && !r->contribute && !r->apply);
}

bool exchange_sums_in_memory(const struct exchange *x)
{
    return x->channels[0].collecting.reads_grads;
}

int exchange_nonfinite_node(const struct exchange *x)
{
    const struct shm_group *g = x->channels[0].collecting.shm_group;

    if (shm_group_is_nonfinite(g, shm_group_me(g)))
        return shm_group_node(g, shm_group_me(g));
    for (int i = 0; i < shm_group_n(g); i++)
        if (shm_group_is_nonfinite(g, i))
            return shm_group_node(g, i);
    return -1;
}

const float *exchange_gradient(const struct exchange *x)
{
    const float *own = x->n_channels == 1 ? x->channels[0].run.gradient : NULL;

    return own ? own : x->cfg.grads;
}

bool exchange_wants_blocks(const struct exchange *x)
{
    return x->rule ? x->rule->per_block : x->handlers.on_block != NULL;
}

/* Waits. */

bool exchange_waits(const struct exchange *x)
{
    for (int i = 0; i < x->n_channels; i++)
        if (x->channels[i].is_waiting)
            return true;
    return x->feed.waits || x->stop_vote.waits || x->finish_vote.waits || x->save_vote.waits ||
           x->test_sum.waits || barrier_waits(x);
}

/* An early contribution to the next round does not end the wait for this one. */
int exchange_end_wait(struct channel *ch, int rc)
{
    if (rc == CODEC_GO && ch->round.stage == ROUND_OPEN)
        ch->is_waiting = false;
    return rc;
}

/* Does the channel wait for a node that has left? */
static bool cannot_complete(const struct channel *ch)
{
    if (barrier_waits(ch->x) ||
        ((ch->x->stop_vote.waits || ch->x->save_vote.waits || ch->x->test_sum.waits) && ch->server) ||
        (ch->x->feed.waits && ch->server == FEED_SERVER))
        return channel_has_left(ch, ch->server);
    return ch->is_waiting && ch->x->handlers.cannot_complete(ch);
}

/* Returns the result of the call under way: CODEC_GO, CODEC_WAIT, or an error if the wait would never end. */
static int outcome(struct exchange *x)
{
    char what[128];

    for (int i = 0; x->peer_stats.n_left > 0 && i < x->n_channels; i++) {
        if (!cannot_complete(&x->channels[i]))
            continue;
        exchange_waits_for(x, what, sizeof what);
        return err_set(x->e, ERR_LOST, "%s cannot arrive: its sender has ended", what);
    }
    return exchange_waits(x) ? CODEC_WAIT : CODEC_GO;
}

/* Calls `handler` of each channel; NULL: there is none. */
static int on_each(struct exchange *x, int (*handler)(struct channel *), struct err *e)
{
    x->e = e;
    for (int i = 0; i < x->n_channels; i++) {
        struct channel *ch = &x->channels[i];
        int rc = handler ? handler(ch) : CODEC_GO;

        ch->is_waiting = rc == CODEC_WAIT;
        if (rc < 0 || (ch->collecting.is_done && collecting_notify(ch) < 0))
            return e->code;
    }
    return outcome(x);
}

/* With a single bucket nothing can be sent before the whole gradient is complete, and in shared memory there
 * is no transfer to overlap with computation. */
int exchange_on_backward(struct exchange *x, struct err *e)
{
    struct channel *ch = &x->channels[0]; /* there are no servers */

    if (!exchange_collects(x) || !x->handlers.on_backward || ch->collecting.n_buckets < 2 ||
        ch->collecting.shm_group)
        return CODEC_GO;
    x->e = e;
    ch->collecting.ready = x->cfg.n_params;
    return x->handlers.on_backward(ch);
}

int exchange_on_ready(struct exchange *x, size_t ready, struct err *e)
{
    x->e = e;
    assert(ready > 0);
    return collecting_ready(&x->channels[0], ready);
}

bool exchange_is_collecting(const struct exchange *x)
{
    return collecting_is_on_mesh(&x->channels[0]);
}

bool exchange_takes_part(const struct exchange *x)
{
    const struct channel *ch = &x->channels[0];

    return channel_takes_part(ch, ch->run.round, ch->run.node);
}

int exchange_on_block(struct exchange *x, int block, struct err *e)
{
    x->e = e;
    for (int i = 0; i < x->n_channels; i++) {
        struct channel *ch = &x->channels[i];
        int rc;

        ch->run.block = block;
        rc = x->handlers.on_block(ch, block);
        ch->run.block = -1;
        if (rc < 0)
            return e->code;
    }
    return CODEC_GO;
}

int exchange_on_grad(struct exchange *x, size_t n_samples, struct err *e)
{
    for (int i = 0; i < x->n_channels; i++) {
        x->channels[i].codec.samples += (float)n_samples;
        x->channels[i].run.gradient = NULL;
    }
    x->e = e;
    for (int i = 0; i < x->n_channels; i++)
        if (combining_on_gradient(&x->channels[i]) < 0)
            return e->code;
    if (x->channels[0].collecting.ready > 0 && collecting_ready(&x->channels[0], 0) < 0)
        return e->code;
    if (x->sends_norm)
        x->grad_norm = gradient_norm(x->cfg.grads, x->cfg.n_params - x->cfg.n_statistics);
    return on_each(x, x->handlers.on_grad, e);
}

void exchange_set_loss(struct exchange *x, double loss)
{
    for (int i = 0; i < x->n_channels; i++)
        x->channels[i].run.loss = (float)loss;
}

int exchange_set_finished(struct exchange *x, struct err *e)
{
    x->e = e;
    if (x->is_finished)
        return 0;
    x->is_finished = true;
    if (barrier_is_used(x) && x->stop_vote.stop.reason == STOP_NONE)
        x->stop_vote.stop = (struct stop){STOP_FINISHED, x->channels[0].run.step + 1, NAN, NAN};
    return finish_vote_is_used(x) && finish_vote_say(x) < 0 ? e->code : 0;
}

void exchange_end_finished(struct exchange *x)
{
    const struct channel *ch = &x->channels[0];
    bool is_before_update = ch->combining.rule->when == CODEC_EACH_STEP;

    x->is_finished = true;
    if (x->stop_vote.stop.reason == STOP_NONE)
        x->stop_vote.stop = (struct stop){STOP_FINISHED, ch->run.step + is_before_update, NAN, NAN};
}

void exchange_updated(struct exchange *x, double lr)
{
    for (int i = 0; i < x->n_channels; i++) {
        x->channels[i].codec.n_local++;
        x->channels[i].codec.lr_sum += (float)lr;
    }
}

int exchange_on_step(struct exchange *x, struct err *e)
{
    int rc;

    for (int i = 0; i < x->n_channels; i++)
        x->channels[i].run.step++;
    finish_vote_check(x);
    rc = on_each(x, x->handlers.on_step, e);
    if (x->handlers.counts_steps) /* an event rule has no rounds of its own */
        for (int i = 0; i < x->n_channels; i++)
            channel_round_done(&x->channels[i]);
    return rc;
}

/* For the rule the present step is the job's last. */
int exchange_close(struct exchange *x, struct err *e)
{
    x->stop_vote.has_closed = true;
    x->cfg.n_steps = x->channels[0].run.step;
    for (int i = 0; i < x->n_channels; i++)
        x->channels[i].run.n_steps = x->cfg.n_steps;
    return on_each(x, x->handlers.on_close, e);
}

static int on_message(struct exchange *x, struct mesh_event *ev)
{
    int index = x->cfg.node < 0 ? 0 : ev->head.channel;
    struct channel *ch = &x->channels[index < x->n_channels ? index : 0];

    if (ev->head.channel == ch->id && x->handlers.on_message)
        return exchange_end_wait(ch, x->handlers.on_message(ch, &ev->head, ev->buf));
    mesh_buf_put(ev->buf);
    if (ev->head.channel != ch->id)
        channel_fail(ch, "node %d sent a message for channel %u", ev->head.peer, ev->head.channel);
    else
        channel_fail(ch, "node %d sent a message, and workers combine by collectives", ev->head.peer);
    return exchange_end_wait(ch, channel_drop_sender(ch, ev->head.peer));
}

/* Calls the codec of each channel whose timer has expired. */
static int wake_up(struct exchange *x)
{
    for (int i = 0; x->handlers.on_wake && i < x->n_channels; i++) {
        struct channel *ch = &x->channels[i];

        if (ch->wake_at > stopwatch_now(x->watch))
            continue;
        ch->wake_at = INFINITY;
        if (exchange_end_wait(ch, x->handlers.on_wake(ch)) < 0)
            return x->e->code;
    }
    return CODEC_GO;
}

/* Nodes that leave or are lost. */

/* Calls `handler` of each channel for a node that has left or is lost: its round may now be complete, and its
 * codec may have a callback for it. */
static int notify_channels(struct exchange *x, int node, int (*handler)(struct channel *, int))
{
    for (int i = 0; handler && i < x->n_channels; i++)
        if (exchange_end_wait(&x->channels[i], handler(&x->channels[i], node)) < 0)
            return x->e->code;
    return CODEC_GO;
}

static void mark_left(struct exchange *x, int node)
{
    x->n_left += node >= 0 && !x->peer_stats.has_left[exchange_slot(x, node)];
    peer_stats_leave(&x->peer_stats, exchange_slot(x, node));
}

int exchange_lose(struct exchange *x, int node, const char *why)
{
    int n_left;

    if (x->peer_stats.has_left[exchange_slot(x, node)])
        return CODEC_GO;
    n_left = x->cfg.n_workers - ++x->n_lost;
    mark_left(x, node);
    for (int i = 0; x->cfg.node < 0 && i < x->n_channels; i++)
        compressing_forget(&x->channels[i].compressing, node);
    if (n_left < x->cfg.min_nodes)
        return err_set(x->e, ERR_LOST, "node %d is lost: %s; %d workers are left, at least %d are needed",
                       node, why, n_left, x->cfg.min_nodes);
    fprintf(stderr, "node %d is lost: %s; continuing without it\n", node, why);
    return CODEC_GO;
}

static int on_left(struct exchange *x, int node)
{
    barrier_on_gone(x, node);
    return exchange_on_ended(x, node);
}

int exchange_on_ended(struct exchange *x, int node)
{
    if (x->peer_stats.has_left[exchange_slot(x, node)])
        return CODEC_GO;
    mark_left(x, node);
    return notify_channels(x, node, x->handlers.on_leave);
}

static int on_lost(struct exchange *x, const struct mesh_event *ev)
{
    int node = ev->head.peer;
    bool has_ended = barrier_is_used(x) && x->peer_stats.has_left[exchange_slot(x, node)];
    char what[128];

    barrier_on_gone(x, node);
    if (!x->cfg.goes_on || node < 0) {
        mark_left(x, node);
        err_set(x->e, ERR_LOST, "node %d is lost: %s", node, ev->why);
        exchange_waits_for(x, what, sizeof what);
        return exchange_waits(x) ? err_hint(x->e, "This node was waiting for %s.", what) : x->e->code;
    }
    if (has_ended)
        return CODEC_GO;
    if (exchange_lose(x, node, ev->why) < 0)
        return x->e->code;
    return notify_channels(x, node, x->handlers.on_loss);
}

/* The handler of a frame that the host itself sends; NULL: the frame is the rule's. */
static int (*host_frame(enum frame_kind kind))(struct exchange *, const struct mesh_event *)
{
    static int (*const of_kind[FRAME_KINDS])(struct exchange *, const struct mesh_event *) = {
        [FRAME_BARRIER] = barrier_on_message,
        [FRAME_STOP_VOTE] = stop_vote_on_message,
        [FRAME_FEED] = feed_on_message};

    return of_kind[kind];
}

/* Of the rule, or a part of a collective. On failure its buffer is taken. */
static int note_message(struct exchange *x, const struct mesh_event *ev)
{
    int slot = exchange_slot(x, ev->head.peer);

    if (!peer_stats_make(&x->peer_stats, slot)) {
        mesh_buf_put(ev->buf);
        return err_set(x->e, ERR_NOMEM, "no memory for the traffic statistics of node %d", ev->head.peer);
    }
    if (x->watch->tracer)
        tracer_message(x->watch->tracer, TRACE_RECEIVED, ev->head.peer,
                       ++peer_stats_of(&x->peer_stats, slot)->n_received, stopwatch_now(x->watch));
    return 0;
}

int exchange_on_event(struct exchange *x, struct mesh_event *ev, struct err *e)
{
    x->e = e;
    switch (ev->kind) {
    case MESH_NOTHING:
        break;
    case MESH_MESSAGE:
        if (ev->head.kind == FRAME_LOCAL ||                     /* sent too late (shm_agreement.h) */
            channel_has_left(&x->channels[0], ev->head.peer)) { /* counts as lost, but still sends */
            mesh_buf_put(ev->buf);
            break;
        }
        if (ev->head.kind == FRAME_WAIT) {
            mesh_buf_put(ev->buf);
            if (stall_on_report(x, &ev->head, e) < 0)
                return e->code;
            break;
        }
        if (barrier_on_any_message(x, &ev->head) < 0) {
            mesh_buf_put(ev->buf);
            return e->code;
        }
        if (host_frame(ev->head.kind)) {
            int rc = host_frame(ev->head.kind)(x, ev);

            mesh_buf_put(ev->buf);
            if (rc < 0)
                return rc;
            break;
        }
        if (note_message(x, ev) < 0)
            return e->code;
        if (ev->head.kind != FRAME_CHUNK && on_message(x, ev) < 0)
            return e->code;
        break;
    case MESH_LEFT:
        if (on_left(x, ev->head.peer) < 0)
            return e->code;
        break;
    case MESH_LOST:
        if (on_lost(x, ev) < 0)
            return e->code;
        break;
    }
    for (int i = 0; i < x->n_channels; i++)
        if (collecting_on_event(&x->channels[i], ev, e) < 0)
            return e->code;
    return wake_up(x) < 0 || stop_vote_update(x) < 0 || finish_vote_update(x) < 0 || save_vote_update(x) < 0
               ? e->code
               : outcome(x);
}

int exchange_on_kept(struct exchange *x, struct mesh_event *ev, struct err *e)
{
    bool is_message = ev->kind == MESH_MESSAGE && !channel_has_left(&x->channels[0], ev->head.peer);

    x->e = e;
    if (ev->kind == MESH_LOST && (!x->cfg.goes_on || ev->head.peer < 0))
        return on_lost(x, ev);
    if (is_message && ev->head.kind == FRAME_WAIT) {
        mesh_buf_put(ev->buf);
        return stall_on_report(x, &ev->head, e) < 0 ? e->code : 1;
    }
    if (ev->kind != MESH_NOTHING && !(is_message && ev->head.kind == FRAME_CHUNK))
        return 0;
    if (ev->kind == MESH_MESSAGE && note_message(x, ev) < 0)
        return e->code;
    for (int i = 0; i < x->n_channels; i++)
        if (collecting_advance(&x->channels[i], ev, e) < 0)
            return e->code;
    return 1;
}

int exchange_end_kept(struct exchange *x, struct err *e)
{
    x->e = e;
    for (int i = 0; i < x->n_channels; i++)
        if (x->channels[i].collecting.is_done && collecting_notify(&x->channels[i]) < 0)
            return e->code;
    return CODEC_GO;
}

double exchange_wakes_at(const struct exchange *x)
{
    double at = INFINITY;

    for (int i = 0; i < x->n_channels; i++)
        at = fmin(at, x->channels[i].wake_at);
    return at;
}

bool exchange_combined_nothing(const struct exchange *x)
{
    bool sets_weights = x->cfg.plugin->combine && combining_may_be_empty(&x->channels[0]);

    for (int i = 0; i < x->n_channels; i++)
        if (x->channels[i].combining.has_combined)
            return false;
    return sets_weights && x->cfg.is_sync && x->n_rounds > 0;
}

bool exchange_updates_here(const struct exchange *x)
{
    return (x->cfg.node < 0) == codec_more(x->cfg.plugin)->updates_on_server;
}

float exchange_lr_factor(const struct exchange *x)
{
    return x->channels[0].run.lr_factor;
}

bool exchange_take_evaluation(struct exchange *x)
{
    bool wants = x->channels[0].run.wants_evaluation;

    x->channels[0].run.wants_evaluation = false;
    return wants;
}

bool exchange_wants_stop(const struct exchange *x)
{
    return x->channels[0].run.wants_stop || x->stop_vote.stop.reason != STOP_NONE;
}

/* Returns the model that this codec trains. NULL: it trains params. */
static const float *model_of(const struct exchange *x, const struct codec *c)
{
    const struct codec_plugin *p = x->cfg.plugin;
    const float *model;
    enum phase last;

    if (!codec_more(p)->model)
        return p->combine && p->combine->adopt ? c->global : NULL;
    last = phase_call(x->watch, PHASE_APPLY, "model");
    model = codec_more(p)->model(c);
    phase_enter(x->watch, last);
    return model;
}

const float *exchange_server_model(const struct channel *ch)
{
    const struct codec_plugin *p = ch->x->cfg.plugin;

    if (p->combine || codec_more(p)->updates_on_server)
        return ch->codec.params;
    return codec_more(p)->model ? codec_more(p)->model(&ch->codec) : NULL;
}

float *exchange_result(struct channel *ch)
{
    const float *model = model_of(ch->x, &ch->codec);

    return model ? (float *)(uintptr_t)model : ch->codec.params; /* the host owns both */
}

const float *exchange_held_model(const struct exchange *x)
{
    const struct channel *ch = &x->channels[0];

    if (ch->run.n_servers > 1 || (ch->codec.is_sync && !codec_more(x->cfg.plugin)->updates_on_server))
        return NULL;
    return exchange_server_model(ch);
}

bool exchange_has_model(const struct exchange *x)
{
    return model_of(x, &x->channels[0].codec);
}

bool exchange_model(const struct exchange *x, float *out)
{
    if (!exchange_has_model(x))
        return false;
    for (int i = 0; i < x->n_channels; i++) {
        const struct codec *c = &x->channels[i].codec;

        memcpy(out + (c->params - x->cfg.params), model_of(x, c), x->channels[i].n_params * sizeof *out);
    }
    return true;
}

bool exchange_must_wait(const struct exchange *x)
{
    size_t chunks = exchange_collects(x) ? COLLECTIVE_QUEUE : 0;
    size_t votes = exchange_never_waits(x) && x->stop_vote.is_on ? STOP_VOTE_QUEUE : 0;

    return mesh_queued(x->mesh) > EXCHANGE_BACKLOG_MAX + chunks + votes;
}

void exchange_waits_for(const struct exchange *x, char *out, size_t size)
{
    snprintf(out, size, "a message");
    if (x->feed.waits) {
        feed_waits_for(out, size);
        return;
    }
    if (x->stop_vote.waits) {
        stop_vote_waits_for(x, out, size);
        return;
    }
    if (x->finish_vote.waits) {
        finish_vote_waits_for(x, out, size);
        return;
    }
    if (save_vote_awaits(x) != STALL_NO_NODE) {
        save_vote_waits_for(x, out, size);
        return;
    }
    if (x->test_sum.waits) {
        test_sum_waits_for(x, out, size);
        return;
    }
    if (barrier_waits(x)) {
        barrier_waits_for(x, out, size);
        return;
    }
    for (int i = 0; i < x->n_channels; i++)
        if (x->channels[i].is_waiting) {
            x->handlers.waits_for(&x->channels[i], out, size);
            return;
        }
}

bool exchange_is_over(const struct exchange *x)
{
    return x->barrier.workers ? barrier_is_deserted(x) : x->n_left == x->cfg.n_workers;
}

struct compress_report exchange_coded(const struct exchange *x)
{
    struct compress_report sum = {0};

    for (int i = 0; i < x->n_channels; i++) {
        const struct compressing *c = &x->channels[i].compressing;
        const struct compress_report r = chains_report(x->cfg.node < 0 ? &c->down : &c->up);

        sum.n_symbols += r.n_symbols;
        sum.n_bits += r.n_bits;
        sum.entropy += r.entropy;
    }
    return sum;
}

uint64_t exchange_read(const struct exchange *x, enum phase phase)
{
    const struct collective *c = x->channels[0].collecting.collective; /* there are no servers */

    return x->read_bytes[phase] + (phase == PHASE_DECODE && c ? collective_summed(c) : 0);
}

const struct exchange_totals *exchange_totals(const struct exchange *x)
{
    return &x->totals;
}

struct stopwatch *exchange_watch(struct exchange *x)
{
    return x->watch;
}

bool exchange_round_done(struct exchange *x, uint64_t *round)
{
    if (x->n_rounds_notified == x->n_rounds)
        return false;
    x->n_rounds_notified = x->n_rounds;
    *round = x->n_rounds;
    return true;
}

static bool has_traffic(const struct peer_stats *s)
{
    for (int slot = 0; (slot = peer_stats_next(s, slot)) < s->n; slot++) {
        const struct peer_traffic *t = peer_stats_of(s, slot);

        if (t->sent.messages > 0 || t->received.messages > 0)
            return true;
    }
    return false;
}

void exchange_end_rounds(struct exchange *x)
{
    if (x->handlers.counts_steps && has_traffic(&x->peer_stats))
        for (int i = 0; i < x->n_channels; i++)
            channel_round_done(&x->channels[i]);
}

const struct exchange_traffic *exchange_sent(const struct exchange *x, int peer)
{
    return &peer_stats_read(&x->peer_stats, exchange_slot(x, peer))->sent_done;
}

const struct exchange_traffic *exchange_received(const struct exchange *x, int peer)
{
    return &peer_stats_read(&x->peer_stats, exchange_slot(x, peer))->recv_done;
}

int exchange_next_peer(const struct exchange *x, int node)
{
    int slot;

    for (; node < -1; node++)
        if (peer_stats_next(&x->peer_stats, exchange_slot(x, node)) == exchange_slot(x, node))
            return node;
    slot = peer_stats_next(&x->peer_stats, node < 0 ? 0 : node);
    return slot < x->cfg.n_workers ? slot : EXCHANGE_NO_PEER;
}

/* 1, or 0: there were no messages. */
static size_t add_comm_row(struct record_comm *out, struct record_comm row, const char *direction,
                           const struct exchange_traffic *t, double encode_s)
{
    if (t->messages == 0)
        return 0;
    row.direction = direction;
    row.messages = t->messages;
    row.raw_bytes = t->raw_bytes;
    row.wire_bytes = t->wire_bytes;
    row.encode_s = encode_s;
    row.transfer_s = t->transfer_s;
    *out = row;
    return 1;
}

size_t exchange_comm_rows(struct record_comm out[2], const struct exchange *x, struct record_comm row)
{
    const struct exchange_traffic *sent = exchange_sent(x, row.peer);
    size_t n = add_comm_row(out, row, "sent", sent, sent->encode_s);

    return n + add_comm_row(out + n, row, "received", exchange_received(x, row.peer), RECORD_MISSING);
}
