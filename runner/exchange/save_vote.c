#include "runner/exchange/save_vote.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runner/exchange/exchange_private.h"

int save_vote_open(struct exchange *x, struct err *e)
{
    if (!x->cfg.saves)
        return 0;
    x->save_vote.workers = calloc((size_t)x->cfg.n_workers, sizeof *x->save_vote.workers);
    return x->save_vote.workers
               ? 0
               : err_set(e, ERR_NOMEM, "no memory for what %d workers have sent", x->cfg.n_workers);
}

void save_vote_clear(struct save_vote *v)
{
    free(v->workers);
    *v = (struct save_vote){0};
}

bool save_vote_is_used(const struct exchange *x)
{
    return x->save_vote.workers;
}

static bool coordinates(const struct exchange *x)
{
    return stop_vote_coordinator(x) == x->cfg.node;
}

static uint64_t steps_done(const struct exchange *x)
{
    return x->channels[0].run.step;
}

/* The end of the round of that step. */
static uint64_t end_of_round(const struct exchange *x, uint64_t step)
{
    uint64_t apart = exchange_has_local_steps(x) ? x->cfg.local_steps : 1;

    return (step + apart - 1) / apart * apart;
}

static int coordinate(struct exchange *x);
static int ask_for_point(struct exchange *x);

/* A worker that has done all steps holds none up. */
static int promise_step(struct exchange *x)
{
    struct save_vote *v = &x->save_vote;
    uint64_t next = steps_done(x) + 1;

    v->is_asked = false;
    v->promised = next < x->cfg.n_steps ? next : x->cfg.n_steps;
    if (v->promised > steps_done(x))
        v->stage = SAVE_VOTE_PROMISED;
    if (!coordinates(x))
        return stop_vote_send(x, stop_vote_coordinator(x), STOP_VOTE_POINT, v->promised, NULL, 0);
    v->workers[x->cfg.node].promised = v->promised;
    return coordinate(x);
}

/* The vote is over for this node. */
static int end_vote(struct exchange *x)
{
    struct save_vote *v = &x->save_vote;

    v->stage = SAVE_VOTE_NONE;
    v->waits = false;
    if (!v->is_asked)
        return CODEC_GO;
    v->is_asked = false;
    return ask_for_point(x);
}

/* A checkpoint of the last step could not be resumed from. */
static int take_point(struct exchange *x, uint64_t step)
{
    struct save_vote *v = &x->save_vote;

    v->waits = false;
    v->point = step;
    v->is_given_up = false;
    v->stage = SAVE_VOTE_DUE;
    if (step < x->cfg.n_steps)
        return CODEC_GO;
    v->is_wanted = false;
    return end_vote(x);
}

static void take_kept(struct exchange *x)
{
    struct save_vote *v = &x->save_vote;

    v->kept = v->point;
    v->rounds_at_kept = x->n_rounds;
    v->is_wanted = false;
}

static void forget_workers(struct exchange *x)
{
    struct save_vote *v = &x->save_vote;

    v->has_asked = false;
    for (int k = 0; k < x->cfg.n_workers; k++)
        v->workers[k].promised = 0;
}

/* The coordinator sends what is due when a worker has promised a step. */
static int coordinate(struct exchange *x)
{
    struct save_vote *v = &x->save_vote;
    uint64_t most = 0;
    bool is_whole = true;

    for (int k = 0; k < x->cfg.n_workers; k++) {
        uint64_t promised = v->workers[k].promised;

        if (!stop_vote_is_present(x, k))
            continue;
        is_whole &= promised > 0;
        most = promised > most ? promised : most;
    }
    if (is_whole && most > 0) {
        /* Of a vote that was given up some workers may know a later point, and points only grow. */
        most = end_of_round(x, most);
        most = most > v->point ? most : v->point;
        forget_workers(x);
        return stop_vote_send_workers(x, STOP_VOTE_POINT, most, NULL, 0) < 0 ? x->e->code
                                                                             : take_point(x, most);
    }
    if (v->has_asked)
        return CODEC_GO;
    v->has_asked = true;
    if (stop_vote_send_workers(x, STOP_VOTE_POINT, 0, NULL, 0) < 0)
        return x->e->code;
    if (exchange_is_server(x) || v->workers[x->cfg.node].promised > 0)
        return CODEC_GO;
    v->is_asked = true;
    return v->stage == SAVE_VOTE_NONE ? promise_step(x) : CODEC_GO;
}

static int ask_for_point(struct exchange *x)
{
    if (!exchange_is_server(x))
        return promise_step(x);
    if (coordinates(x))
        return coordinate(x);
    for (int k = 0; k < x->cfg.n_workers; k++)
        if (stop_vote_is_present(x, k))
            return stop_vote_send(x, k, STOP_VOTE_POINT, 0, NULL, 0);
    return CODEC_GO;
}

int save_vote_ask(struct exchange *x, struct err *e)
{
    struct save_vote *v = &x->save_vote;

    x->e = e;
    v->is_wanted = v->workers;
    return v->workers && v->stage == SAVE_VOTE_NONE ? ask_for_point(x) : CODEC_GO;
}

uint64_t save_vote_kept(const struct exchange *x)
{
    return x->save_vote.kept;
}

bool save_vote_is_at_kept(const struct exchange *x)
{
    const struct save_vote *v = &x->save_vote;

    return v->kept > 0 &&
           (exchange_is_server(x) ? v->rounds_at_kept == x->n_rounds : v->kept == steps_done(x));
}

bool save_vote_has_saved(const struct exchange *x)
{
    return x->save_vote.stage == SAVE_VOTE_SAVED;
}

static bool is_awaited(const struct exchange *x)
{
    for (int i = 0; i < x->n_channels; i++)
        if (collecting_is_awaited(&x->channels[i]))
            return true;
    return false;
}

static bool is_held(const struct exchange *x)
{
    const struct save_vote *v = &x->save_vote;

    return v->stage == SAVE_VOTE_PROMISED && steps_done(x) >= v->promised && !is_awaited(x);
}

int save_vote_hold(struct exchange *x)
{
    x->save_vote.waits = is_held(x);
    return x->save_vote.waits ? CODEC_WAIT : CODEC_GO;
}

uint64_t save_vote_point(const struct exchange *x)
{
    return x->save_vote.stage == SAVE_VOTE_DUE ? x->save_vote.point : 0;
}

static bool have_all_saved(const struct exchange *x)
{
    for (int k = 0; k < x->cfg.n_workers; k++)
        if (stop_vote_is_present(x, k) && x->save_vote.workers[k].saved < x->save_vote.point)
            return false;
    return true;
}

/* On the coordinator, and on each server. */
static int check_saved(struct exchange *x)
{
    struct save_vote *v = &x->save_vote;

    if (v->stage != SAVE_VOTE_SAVED || !have_all_saved(x))
        return CODEC_GO;
    take_kept(x);
    if (coordinates(x) && stop_vote_send_workers(x, STOP_VOTE_SAVED, v->point, NULL, 0) < 0)
        return x->e->code;
    return end_vote(x);
}

static int say_saved(struct exchange *x, uint64_t step)
{
    if (!coordinates(x))
        return stop_vote_send(x, stop_vote_coordinator(x), STOP_VOTE_SAVED, step, NULL, 0) < 0
                   ? x->e->code
                   : stop_vote_send_servers(x, STOP_VOTE_SAVED, step, NULL, 0);
    x->save_vote.workers[x->cfg.node].saved = step;
    return check_saved(x);
}

int save_vote_saved(struct exchange *x, struct err *e)
{
    struct save_vote *v = &x->save_vote;

    x->e = e;
    if (v->is_given_up)
        return end_vote(x);
    v->stage = SAVE_VOTE_SAVED;
    if (exchange_is_server(x))
        return check_saved(x);
    v->waits = true;
    if (say_saved(x, v->point) < 0)
        return e->code;
    return v->waits ? CODEC_WAIT : CODEC_GO;
}

static int refuse_message(struct exchange *x, int from)
{
    err_set(x->e, ERR_PROTOCOL, "node %d sent a message about a checkpoint that it cannot have", from);
    return from < 0 ? x->e->code : channel_drop_sender(&x->channels[0], from);
}

/* Whether a worker may get such a message of that node. */
static bool may_lead(const struct exchange *x, int from)
{
    return from < 0 || x->cfg.n_servers == 0;
}

/* The present worker is asked for its step, or learns the point. */
static int on_point_of_job(struct exchange *x, uint64_t step)
{
    struct save_vote *v = &x->save_vote;

    if (step > 0) {
        if (stop_vote_send_servers(x, STOP_VOTE_POINT, step, NULL, 0) < 0)
            return x->e->code;
        if (v->stage == SAVE_VOTE_PROMISED ? step >= v->promised : steps_done(x) < step)
            return take_point(x, step);
        return say_saved(x, step); /* the vote was given up here: nobody is to wait for this node */
    }
    if (v->stage == SAVE_VOTE_NONE)
        return promise_step(x);
    v->is_asked = v->stage != SAVE_VOTE_PROMISED;
    return CODEC_GO;
}

/* Each worker forwards the point to a server, the last one perhaps after the server has saved. */
static int on_forwarded_point(struct exchange *x, uint64_t step)
{
    return step > x->save_vote.point ? take_point(x, step) : CODEC_GO;
}

int save_vote_on_point(struct exchange *x, const struct mesh_head *h, const struct mesh_buf *b)
{
    struct save_vote *v = &x->save_vote;
    bool is_promise = h->peer >= 0 && coordinates(x);

    /* The round of the last step may end after it. */
    if (!v->workers || b->len > 0 || h->round > end_of_round(x, x->cfg.n_steps) ||
        (h->round == 0 && (exchange_is_server(x) || is_promise)) || (exchange_is_server(x) && h->peer < 0) ||
        (!exchange_is_server(x) && !may_lead(x, h->peer)))
        return refuse_message(x, h->peer);
    if (is_promise) {
        v->workers[h->peer].promised = h->round;
        return coordinate(x);
    }
    return exchange_is_server(x) ? on_forwarded_point(x, h->round) : on_point_of_job(x, h->round);
}

int save_vote_on_saved(struct exchange *x, const struct mesh_head *h, const struct mesh_buf *b)
{
    struct save_vote *v = &x->save_vote;
    bool is_report = h->peer >= 0 && (exchange_is_server(x) || coordinates(x));

    if (!v->workers || b->len > 0 || h->round == 0 || h->round > x->cfg.n_steps ||
        (!is_report && (exchange_is_server(x) || !may_lead(x, h->peer))))
        return refuse_message(x, h->peer);
    if (is_report) {
        v->workers[h->peer].saved = h->round;
        if (coordinates(x) && (v->stage == SAVE_VOTE_NONE || v->point != h->round))
            return stop_vote_send(x, h->peer, STOP_VOTE_SAVED, h->round, NULL, 0);
        return check_saved(x);
    }
    if (v->stage != SAVE_VOTE_SAVED || v->point != h->round)
        return CODEC_GO;
    take_kept(x);
    return end_vote(x);
}

int save_vote_update(struct exchange *x)
{
    struct save_vote *v = &x->save_vote;

    if (v->stage == SAVE_VOTE_PROMISED)
        v->waits = v->waits && is_held(x);
    if (!v->workers || v->n_left == x->n_left)
        return CODEC_GO;
    v->n_left = x->n_left;
    forget_workers(x);
    v->is_asked = v->is_wanted;
    v->is_given_up = v->stage == SAVE_VOTE_DUE;
    return v->is_given_up ? CODEC_GO : end_vote(x);
}

int save_vote_awaits(const struct exchange *x)
{
    const struct save_vote *v = &x->save_vote;
    bool is_server = exchange_is_server(x);

    if (!v->workers || (!v->waits && !is_server))
        return STALL_NO_NODE;
    if (!coordinates(x) && !is_server)
        return stop_vote_coordinator(x);
    for (int k = 0; k < x->cfg.n_workers; k++)
        if (stop_vote_is_present(x, k) && k != x->cfg.node &&
            (v->stage == SAVE_VOTE_SAVED ? v->workers[k].saved < v->point
                                         : v->has_asked && v->workers[k].promised == 0))
            return k;
    return STALL_NO_NODE;
}

void save_vote_waits_for(const struct exchange *x, char *out, size_t size)
{
    const struct save_vote *v = &x->save_vote;

    if (v->stage == SAVE_VOTE_SAVED)
        snprintf(out, size, "node %d's message that the checkpoint after step %" PRIu64 " is written",
                 save_vote_awaits(x), v->point);
    else
        snprintf(out, size, "node %d's message about the step of a checkpoint", save_vote_awaits(x));
}
