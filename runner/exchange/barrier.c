#include "runner/exchange/barrier.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runner/exchange/exchange_private.h"

bool barrier_is_used(const struct exchange *x)
{
    return x->cfg.n_servers > 0 && !x->cfg.is_sync;
}

int barrier_open(struct exchange *x, struct err *e)
{
    struct barrier *b = &x->barrier;
    size_t n = (size_t)(exchange_is_server(x) ? x->cfg.n_workers : x->cfg.n_servers);

    if (!barrier_is_used(x))
        return 0;
    if (exchange_is_server(x))
        b->workers = calloc(n, sizeof *b->workers);
    else
        b->answered = calloc(n, sizeof *b->answered);
    return b->workers || b->answered ? 0 : err_set(e, ERR_NOMEM, "no memory for the state of %zu nodes", n);
}

void barrier_clear(struct barrier *b)
{
    free(b->workers);
    free(b->answered);
    *b = (struct barrier){0};
}

size_t barrier_bytes(const struct exchange *x)
{
    size_t most = 0;

    for (int i = 0; barrier_is_used(x) && i < x->n_channels; i++)
        if (x->channels[i].n_params > most)
            most = x->channels[i].n_params;
    return most * sizeof(float);
}

static int send_barrier(struct exchange *x, int to, uint16_t channel, enum barrier_kind kind, uint64_t step,
                        const float *params, size_t n, struct err *e)
{
    const struct mesh_head h = {
        .kind = FRAME_BARRIER, .peer = to, .channel = channel, .index = kind, .round = step};
    struct mesh_buf *b = mesh_buf_take(x->mesh);
    int rc;

    if (!b)
        return err_set(e, ERR_NOMEM, "no memory for a message");
    b->len = n * sizeof *params;
    if (n > 0)
        memcpy(b->bytes, params, b->len);
    rc = mesh_send(x->mesh, &h, b, e);
    mesh_buf_put(b);
    return rc;
}

/* A worker's side. */

int barrier_reach(struct exchange *x, enum barrier_kind kind, uint64_t step, struct err *e)
{
    struct barrier *b = &x->barrier;

    b->kind = kind;
    b->step = step;
    b->n_open = x->n_channels;
    for (int i = 0; i < x->n_channels; i++) {
        b->answered[i] = false;
        if (send_barrier(x, x->channels[i].server, x->channels[i].id, kind, step, NULL, 0, e) < 0)
            return e->code;
    }
    return CODEC_WAIT;
}

bool barrier_waits(const struct exchange *x)
{
    return x->barrier.n_open > 0;
}

/* The channel of the first server whose answer is missing; -1: none. */
static int open_channel(const struct exchange *x)
{
    for (int i = 0; x->barrier.n_open > 0 && i < x->n_channels; i++)
        if (!x->barrier.answered[i])
            return i;
    return -1;
}

/* The servers' parameters become the worker's model. */
static void take_result(struct channel *ch, const float *params)
{
    memcpy(exchange_result(ch), params, ch->n_params * sizeof *params);
}

static int on_answer(struct exchange *x, const struct mesh_head *h, const struct mesh_buf *buf)
{
    struct barrier *b = &x->barrier;
    int i = h->channel;
    struct channel *ch = i < x->n_channels ? &x->channels[i] : NULL;
    size_t bytes = ch ? ch->n_params * sizeof(float) : 0;
    bool has_result = h->index == BARRIER_END && buf->len == bytes;

    if (!ch || h->peer != ch->server || b->n_open == 0 || b->answered[i] || (!has_result && buf->len > 0) ||
        (h->index != BARRIER_UNDER_WAY && h->index != (uint32_t)b->kind) || h->round != b->step)
        return err_set(x->e, ERR_PROTOCOL,
                       "node %d sent an answer to a barrier at which this node does not wait", h->peer);
    if (h->index == BARRIER_UNDER_WAY)
        return CODEC_GO;
    if (has_result)
        take_result(ch, (const float *)(const void *)buf->bytes);
    b->answered[i] = true;
    b->n_open--;
    return CODEC_GO;
}

/* A server's side. */

static bool anyone_waits(const struct exchange *x)
{
    for (int k = 0; k < x->cfg.n_workers; k++)
        if (x->barrier.workers[k].waits && !x->barrier.workers[k].is_gone)
            return true;
    return false;
}

static int on_reached(struct exchange *x, const struct mesh_head *h, const struct mesh_buf *buf)
{
    struct barrier_worker *w = h->peer >= 0 ? &x->barrier.workers[h->peer] : NULL;
    bool is_valid = w && h->channel == x->channels[0].id && !w->waits && buf->len == 0;

    if (is_valid && h->index == BARRIER_COMPUTES)
        return CODEC_GO;
    if (!is_valid || h->index > BARRIER_END || h->round < w->step) {
        err_set(x->e, ERR_PROTOCOL, "node %d sent a message of a barrier that it cannot have reached",
                h->peer);
        return channel_drop_sender(&x->channels[0], h->peer);
    }
    if (!anyone_waits(x))
        x->barrier.waited_since = stopwatch_now(x->watch);
    w->step = h->round;
    w->waits = true;
    w->has_ended = h->index == BARRIER_END;
    return w->has_ended ? exchange_on_ended(x, h->peer) : CODEC_GO;
}

bool barrier_is_reached(const struct exchange *x, enum barrier_kind *kind, uint64_t *step)
{
    const struct barrier *b = &x->barrier;
    uint64_t least[] = {[BARRIER_POINT] = UINT64_MAX, [BARRIER_END] = UINT64_MAX};

    for (int k = 0; b->workers && k < x->cfg.n_workers; k++) {
        const struct barrier_worker *w = &b->workers[k];
        uint64_t *at = &least[w->has_ended ? BARRIER_END : BARRIER_POINT];

        if (w->is_gone)
            continue;
        if (!w->waits)
            return false;
        if (w->step < *at)
            *at = w->step;
    }
    *kind = least[BARRIER_POINT] < UINT64_MAX ? BARRIER_POINT : BARRIER_END;
    *step = least[*kind];
    return *step < UINT64_MAX;
}

/* Is the answer of this barrier for that worker? The last barrier is complete when all workers wait at it,
 * and a worker that has ended waits at no other barrier. */
static bool is_answered_by(const struct barrier_worker *w, enum barrier_kind kind, uint64_t step)
{
    return !w->is_gone && w->waits && (kind == BARRIER_END || (!w->has_ended && w->step == step));
}

int barrier_release(struct exchange *x, struct err *e)
{
    const struct channel *ch = &x->channels[0];
    struct barrier *b = &x->barrier;
    const float *model = exchange_server_model(ch);
    enum barrier_kind kind;
    uint64_t step;

    if (!barrier_is_reached(x, &kind, &step))
        return CODEC_GO;
    for (int k = 0; k < x->cfg.n_workers; k++) {
        struct barrier_worker *w = &b->workers[k];

        if (!is_answered_by(w, kind, step))
            continue;
        w->waits = false;
        if (send_barrier(x, k, ch->id, kind, w->step, model, kind == BARRIER_END && model ? ch->n_params : 0,
                         e) < 0)
            return e->code;
    }
    b->waited_since = stopwatch_now(x->watch);
    return CODEC_GO;
}

bool barrier_is_deserted(const struct exchange *x)
{
    for (int k = 0; k < x->cfg.n_workers; k++)
        if (!x->barrier.workers[k].is_gone)
            return false;
    return true;
}

int barrier_send_under_way(struct exchange *x, double period, struct err *e)
{
    struct barrier *b = &x->barrier;
    double now = stopwatch_now(x->watch);
    bool anyone = false;

    if (!b->workers || now < b->sent_at + period)
        return CODEC_GO;
    for (int k = 0; k < x->cfg.n_workers; k++) {
        const struct barrier_worker *w = &b->workers[k];

        anyone |= w->waits && !w->is_gone;
        if (!w->is_gone && !w->waits && !w->has_sent)
            return CODEC_GO;
    }
    b->sent_at = now;
    for (int k = 0; anyone && k < x->cfg.n_workers; k++) {
        struct barrier_worker *w = &b->workers[k];

        w->has_sent = false;
        if (w->waits && !w->is_gone && mesh_queued_for(x->mesh, k) == 0 &&
            send_barrier(x, k, x->channels[0].id, BARRIER_UNDER_WAY, w->step, NULL, 0, e) < 0)
            return e->code;
    }
    return CODEC_GO;
}

int barrier_send_computing(struct exchange *x, double period, struct err *e)
{
    struct barrier *b = &x->barrier;
    double now = stopwatch_now(x->watch);

    if (!b->answered || now < b->sent_at + period)
        return CODEC_GO;
    b->sent_at = now;
    for (int i = 0; i < x->n_channels; i++)
        if (mesh_queued_for(x->mesh, x->channels[i].server) == 0 &&
            send_barrier(x, x->channels[i].server, x->channels[i].id, BARRIER_COMPUTES, 0, NULL, 0, e) < 0)
            return e->code;
    return CODEC_GO;
}

void barrier_drop_silent(struct exchange *x, double limit_s)
{
    struct barrier *b = &x->barrier;
    double now = stopwatch_now(x->watch), latest = now - limit_s;
    char why[MESH_REASON_MAX];

    if (!b->workers || !x->cfg.goes_on || !anyone_waits(x) || b->waited_since > latest)
        return;
    snprintf(why, sizeof why, "it has sent nothing for %.3g s, and other workers wait for it", limit_s);
    for (int k = 0; k < x->cfg.n_workers; k++) {
        struct barrier_worker *w = &b->workers[k];

        if (w->is_gone || w->waits || w->received_at > latest)
            continue;
        w->received_at = now; /* dropped once */
        mesh_drop(x->mesh, k, why);
    }
}

int barrier_on_message(struct exchange *x, const struct mesh_event *ev)
{
    if (!barrier_is_used(x))
        return err_set(x->e, ERR_PROTOCOL, "node %d sent a barrier, and this job has none", ev->head.peer);
    return (exchange_is_server(x) ? on_reached : on_answer)(x, &ev->head, ev->buf);
}

int barrier_on_any_message(struct exchange *x, const struct mesh_head *h)
{
    struct barrier_worker *w = x->barrier.workers && h->peer >= 0 ? &x->barrier.workers[h->peer] : NULL;

    if (!w)
        return CODEC_GO;
    w->has_sent = true;
    w->received_at = stopwatch_now(x->watch);
    if (!w->waits || h->kind == FRAME_BARRIER || h->kind == FRAME_STOP_VOTE)
        return CODEC_GO;
    err_set(x->e, ERR_PROTOCOL, "node %d waits at a barrier and sent a message", h->peer);
    return channel_drop_sender(&x->channels[0], h->peer);
}

void barrier_on_gone(struct exchange *x, int node)
{
    if (x->barrier.workers && node >= 0)
        x->barrier.workers[node].is_gone = true;
}

bool barrier_still_receives(const struct exchange *x, int node)
{
    return x->barrier.workers && node >= 0 && x->barrier.workers[node].waits &&
           !x->barrier.workers[node].is_gone;
}

void barrier_waits_for(const struct exchange *x, char *out, size_t size)
{
    int i = open_channel(x);

    if (i >= 0 && x->barrier.kind == BARRIER_END)
        snprintf(out, size, "node %d's message that all workers have ended", x->channels[i].server);
    else if (i >= 0)
        snprintf(out, size, "node %d's message that all workers have done step %" PRIu64,
                 x->channels[i].server, x->barrier.step);
}

/* On a server where some workers wait at a barrier: returns the worker whose last message is the oldest, of
 * those that do not wait. */
int barrier_awaits(const struct exchange *x)
{
    const struct barrier *b = &x->barrier;
    int i = open_channel(x), node = STALL_NO_NODE;
    bool anyone = false;

    if (i >= 0)
        return x->channels[i].server;
    for (int k = 0; b->workers && k < x->cfg.n_workers; k++) {
        const struct barrier_worker *w = &b->workers[k];

        if (w->is_gone)
            continue;
        anyone |= w->waits;
        if (!w->waits && (node == STALL_NO_NODE || w->received_at < b->workers[node].received_at))
            node = k;
    }
    return anyone ? node : STALL_NO_NODE;
}
