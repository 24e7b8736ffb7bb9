#include "runner/exchange/finish_vote.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "runner/exchange/exchange_private.h"

int finish_vote_open(struct exchange *x, struct err *e)
{
    struct finish_vote *v = &x->finish_vote;

    v->said_to = STALL_NO_NODE;
    if (!x->cfg.has_trainer || barrier_is_used(x) || (x->cfg.plugin->combine && x->cfg.is_sync))
        return 0;
    v->workers = calloc((size_t)x->cfg.n_workers, sizeof *v->workers);
    return v->workers ? 0
                      : err_set(e, ERR_NOMEM, "no memory for what %d workers have sent", x->cfg.n_workers);
}

void finish_vote_clear(struct finish_vote *v)
{
    free(v->workers);
    *v = (struct finish_vote){0};
}

bool finish_vote_is_used(const struct exchange *x)
{
    return x->finish_vote.workers;
}

static uint64_t steps_done(const struct exchange *x)
{
    return x->channels[0].run.step;
}

static int send_last(struct exchange *x, uint64_t step)
{
    return stop_vote_send_workers(x, STOP_VOTE_LAST, step, NULL, 0);
}

static void take_last(struct exchange *x, uint64_t step)
{
    x->finish_vote.last = step;
    x->finish_vote.waits = false;
    finish_vote_check(x);
}

static void promise_step(struct exchange *x)
{
    uint64_t next = steps_done(x) + 1;

    x->finish_vote.own.step = next < x->cfg.n_steps ? next : x->cfg.n_steps;
}

/* The coordinator sends what is due. */
static int coordinate(struct exchange *x)
{
    struct finish_vote *v = &x->finish_vote;
    uint64_t most = 0, least = UINT64_MAX;

    for (int k = 0; k < x->cfg.n_workers; k++) {
        const struct finish_vote_worker *w = &v->workers[k];

        if (!stop_vote_is_present(x, k))
            continue;
        if (!w->is_finished)
            return CODEC_GO;
        most = w->step > most ? w->step : most;
        least = w->step < least ? w->step : least;
    }
    if (v->last > 0)
        return CODEC_GO;
    if (least > 0) {
        take_last(x, most);
        return send_last(x, most);
    }
    if (v->has_asked)
        return CODEC_GO;
    v->has_asked = true;
    if (send_last(x, 0) < 0)
        return x->e->code;
    if (exchange_is_server(x) || v->own.step > 0)
        return CODEC_GO;
    promise_step(x);
    return finish_vote_say(x);
}

int finish_vote_say(struct exchange *x)
{
    struct finish_vote *v = &x->finish_vote;

    v->own.is_finished = true;
    v->said_to = stop_vote_coordinator(x);
    if (v->said_to != x->cfg.node)
        return stop_vote_send(x, v->said_to, STOP_VOTE_FINISHED, v->last > 0 ? v->last : v->own.step, NULL,
                              0);
    v->workers[x->cfg.node] = v->own;
    return coordinate(x);
}

int finish_vote_hold(struct exchange *x)
{
    struct finish_vote *v = &x->finish_vote;

    v->waits = v->own.step > 0 && v->last == 0 && steps_done(x) >= v->own.step;
    return v->waits ? CODEC_WAIT : CODEC_GO;
}

void finish_vote_check(struct exchange *x)
{
    uint64_t last = x->finish_vote.last;

    if (last > 0 && last < x->cfg.n_steps && steps_done(x) >= last && x->stop_vote.stop.reason == STOP_NONE)
        x->stop_vote.stop = (struct stop){STOP_FINISHED, last, NAN, NAN};
}

static int refuse_message(struct exchange *x, int from)
{
    err_set(x->e, ERR_PROTOCOL, "node %d sent a message about the end of all data that it cannot have", from);
    return from < 0 ? x->e->code : channel_drop_sender(&x->channels[0], from);
}

int finish_vote_on_finished(struct exchange *x, const struct mesh_head *h, const struct mesh_buf *b)
{
    struct finish_vote *v = &x->finish_vote;
    struct finish_vote_worker *w = v->workers && h->peer >= 0 ? &v->workers[h->peer] : NULL;

    if (!w || b->len > 0 || h->round < w->step || h->round > x->cfg.n_steps)
        return refuse_message(x, h->peer);
    *w = (struct finish_vote_worker){true, h->round};
    if (stop_vote_coordinator(x) != x->cfg.node)
        return CODEC_GO;
    if (v->last > 0 && v->last != h->round) /* it has come from the previous coordinator */
        return stop_vote_send(x, h->peer, STOP_VOTE_LAST, v->last, NULL, 0);
    return coordinate(x);
}

int finish_vote_on_last(struct exchange *x, const struct mesh_head *h, const struct mesh_buf *b)
{
    struct finish_vote *v = &x->finish_vote;
    bool is_asked = h->round == 0;

    if (!v->workers || exchange_is_server(x) || b->len > 0 || !v->own.is_finished ||
        h->round > x->cfg.n_steps || (!is_asked && (v->own.step == 0 || h->round < v->own.step)))
        return refuse_message(x, h->peer);
    if (v->last > 0)
        return CODEC_GO; /* another worker has forwarded it */
    if (is_asked) {
        if (v->own.step == 0)
            promise_step(x);
        return finish_vote_say(x);
    }
    take_last(x, h->round);
    return x->cfg.goes_on && x->cfg.n_servers == 0 ? send_last(x, v->last) : CODEC_GO;
}

int finish_vote_update(struct exchange *x)
{
    struct finish_vote *v = &x->finish_vote;

    if (!v->workers || v->n_left == x->n_left)
        return CODEC_GO;
    v->n_left = x->n_left;
    if (!exchange_is_server(x) && v->own.is_finished && v->said_to != stop_vote_coordinator(x))
        return finish_vote_say(x);
    return stop_vote_coordinator(x) == x->cfg.node ? coordinate(x) : CODEC_GO;
}

int finish_vote_awaits(const struct exchange *x)
{
    const struct finish_vote *v = &x->finish_vote;
    int node = stop_vote_coordinator(x);

    if (!v->waits)
        return STALL_NO_NODE;
    for (int k = 0; node == x->cfg.node && k < x->cfg.n_workers; k++)
        if (stop_vote_is_present(x, k) && v->workers[k].step == 0)
            return k;
    return node;
}

void finish_vote_waits_for(const struct exchange *x, char *out, size_t size)
{
    snprintf(out, size, "node %d's message about the job's last step, as no program has more data",
             finish_vote_awaits(x));
}
