#include "runner/exchange/stop_vote.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runner/exchange/exchange_private.h"

_Static_assert(sizeof(struct stop_vote_result) == 32, "as in frames");

int stop_vote_open(struct exchange *x, struct err *e)
{
    struct stop_vote *v = &x->stop_vote;

    v->reported_to = STALL_NO_NODE;
    v->n_most = x->cfg.n_steps;
    v->is_on = x->cfg.shares_evaluations;
    v->rule = (struct stop_rule){.target = x->cfg.target_accuracy, .patience = x->cfg.patience};
    if (!v->is_on)
        return 0;
    v->reports = calloc((size_t)x->cfg.n_workers, sizeof *v->reports);
    return v->reports ? 0
                      : err_set(e, ERR_NOMEM, "no memory for the results of %d workers", x->cfg.n_workers);
}

void stop_vote_clear(struct stop_vote *v)
{
    free(v->reports);
    stop_rule_clear(&v->rule);
    *v = (struct stop_vote){0};
}

bool stop_vote_is_used(const struct exchange *x)
{
    return x->stop_vote.is_on;
}

const struct stop *stop_vote_decision(const struct exchange *x)
{
    return &x->stop_vote.stop;
}

bool stop_vote_is_present(const struct exchange *x, int worker)
{
    return worker == x->cfg.node || !x->peer_stats.has_left[exchange_slot(x, worker)];
}

int stop_vote_coordinator(const struct exchange *x)
{
    int k = 0;

    if (x->cfg.n_servers > 0)
        return FIRST_SERVER;
    if (x->links) /* no other worker is linked to all, and the job ends with it */
        return 0;
    while (k < x->cfg.n_workers && !stop_vote_is_present(x, k))
        k++;
    return k;
}

int stop_vote_send(struct exchange *x, int to, enum stop_vote_kind kind, uint64_t round, const void *payload,
                   size_t len)
{
    uint16_t channel = (uint16_t)(to < 0 ? FIRST_SERVER - to : x->channels[0].id);
    const struct mesh_head h = {
        .kind = FRAME_STOP_VOTE, .peer = to, .channel = channel, .index = kind, .round = round};
    struct mesh_buf *b;
    int rc;

    /* In asgd results can be dropped, because later ones replace them; but not the decision to end the
     * job. */
    if (!x->cfg.is_sync && kind <= STOP_VOTE_RESULT && round == STOP_NONE &&
        mesh_queued_for(x->mesh, to) >= EXCHANGE_BACKLOG_MAX + STOP_VOTE_QUEUE)
        return CODEC_GO;
    b = mesh_buf_take(x->mesh);
    if (!b)
        return err_set(x->e, ERR_NOMEM, "no memory for a message");
    b->len = len;
    if (len > 0)
        memcpy(b->bytes, payload, len);
    rc = mesh_send(x->mesh, &h, b, x->e);
    mesh_buf_put(b);
    return rc < 0 ? rc : CODEC_GO;
}

int stop_vote_send_workers(struct exchange *x, enum stop_vote_kind kind, uint64_t round, const void *payload,
                           size_t len)
{
    for (int k = 0; k < x->cfg.n_workers; k++)
        if (k != x->cfg.node && stop_vote_is_present(x, k) &&
            stop_vote_send(x, k, kind, round, payload, len) < 0)
            return x->e->code;
    return CODEC_GO;
}

int stop_vote_send_servers(struct exchange *x, enum stop_vote_kind kind, uint64_t round, const void *payload,
                           size_t len)
{
    for (int s = 1; s < x->cfg.n_servers; s++)
        if (stop_vote_send(x, FIRST_SERVER - s, kind, round, payload, len) < 0)
            return x->e->code;
    return CODEC_GO;
}

/* A worker forwards a mean or decision, as stop_vote.h describes. */
static int forward_result(struct exchange *x, const struct stop_vote_result *r, enum stop_reason reason)
{
    if (stop_vote_send_servers(x, STOP_VOTE_RESULT, reason, r, sizeof *r) < 0)
        return x->e->code;
    if (x->cfg.n_servers > 0 || reason == STOP_NONE || !x->cfg.goes_on)
        return CODEC_GO;
    return stop_vote_send_workers(x, STOP_VOTE_RESULT, reason, r, sizeof *r);
}

static int call_codec(struct channel *ch)
{
    int (*on_evaluation)(struct codec *) = codec_more(ch->x->cfg.plugin)->on_evaluation;
    enum phase last;
    int rc;

    if (!on_evaluation)
        return CODEC_GO;
    last = phase_call(ch->x->watch, PHASE_APPLY, "on_evaluation");
    channel_before_call(ch);
    rc = channel_after_call(ch, "on_evaluation", on_evaluation(&ch->codec), false);
    phase_enter(ch->x->watch, last);
    return rc;
}

/* Takes over the mean of all workers. `reason`: the decision. */
static int take_result(struct exchange *x, const struct stop_vote_result *r, enum stop_reason reason)
{
    struct stop_vote *v = &x->stop_vote;

    v->known = *r;
    if (v->stop.reason == STOP_NONE && reason != STOP_NONE)
        v->stop = (struct stop){reason, r->step, r->loss, r->accuracy};
    for (int i = 0; i < x->n_channels; i++) {
        x->channels[i].run.evaluation = (struct codec_evaluation){r->step, (float)r->loss,
                                                                  (float)r->accuracy};
        if (call_codec(&x->channels[i]) < 0)
            return x->e->code;
    }
    if (!exchange_is_server(x) && v->stop.reason == STOP_NONE && x->channels[0].run.wants_stop)
        v->stop = (struct stop){STOP_CODEC, r->step, r->loss, r->accuracy};
    v->waits &= v->own.n > r->n;
    return CODEC_GO;
}

/* Only the coordinator calls it. */
static int announce(struct exchange *x, const struct stop_vote_result *r)
{
    enum stop_reason reason;

    if (stop_rule_add(&reason, &x->stop_vote.rule, r->loss, r->accuracy, x->e) < 0 ||
        take_result(x, r, reason) < 0)
        return x->e->code;
    for (int k = 0; k < x->cfg.n_workers; k++)
        x->stop_vote.reports[k].known = *r;
    return stop_vote_send_workers(x, STOP_VOTE_RESULT, reason, r, sizeof *r);
}

/* A new coordinator answers workers that wait for a mean which it has received from the previous
 * coordinator. */
static int answer_late(struct exchange *x)
{
    struct stop_vote *v = &x->stop_vote;

    for (int k = 0; x->cfg.is_sync && k < x->cfg.n_workers; k++) {
        struct stop_vote_report *r = &v->reports[k];

        if (k == x->cfg.node || !stop_vote_is_present(x, k) || r->own.n != v->known.n ||
            r->known.n >= v->known.n)
            continue;
        r->known = v->known;
        if (stop_vote_send(x, k, STOP_VOTE_RESULT, v->stop.reason, &v->known, sizeof v->known) < 0)
            return x->e->code;
    }
    return CODEC_GO;
}

static struct stop_vote_result mean_result(const struct exchange *x, uint64_t n)
{
    struct stop_vote_result m = {.n = n, .step = UINT64_MAX};
    int n_present = 0;

    for (int k = 0; k < x->cfg.n_workers; k++) {
        const struct stop_vote_result *r = &x->stop_vote.reports[k].own;

        if (!stop_vote_is_present(x, k))
            continue;
        m.step = r->step < m.step ? r->step : m.step;
        m.loss += r->loss;
        m.accuracy += r->accuracy;
        n_present++;
    }
    m.loss /= n_present;
    m.accuracy /= n_present;
    return m;
}

static int refuse_result(struct exchange *x, int from)
{
    err_set(x->e, ERR_PROTOCOL, "node %d sent the result of an evaluation that it cannot have made", from);
    return from < 0 ? x->e->code : channel_drop_sender(&x->channels[0], from);
}

/* A worker has reported the mean of an evaluation that another worker has not made. */
static int refuse_known(struct exchange *x, const struct stop_vote_result *known)
{
    struct stop_vote *v = &x->stop_vote;
    int k = 0;

    while (&v->reports[k].known != known)
        k++;
    v->reports[k].known = (struct stop_vote_result){0};
    return refuse_result(x, k);
}

/* The coordinator announces each mean that can be computed now. */
static int announce_result(struct exchange *x)
{
    struct stop_vote *v = &x->stop_vote;
    const struct stop_vote_result *latest = &v->known;
    uint64_t least = UINT64_MAX;
    struct stop_vote_result m;

    for (int k = 0; k < x->cfg.n_workers; k++) {
        const struct stop_vote_report *r = &v->reports[k];

        if (!stop_vote_is_present(x, k))
            continue;
        least = r->own.n < least ? r->own.n : least;
        latest = r->known.n > latest->n ? &r->known : latest;
    }
    if (least == UINT64_MAX || least <= v->known.n)
        return answer_late(x);
    if (x->cfg.is_sync && latest->n > least)
        return refuse_known(x, latest);
    m = latest->n > v->known.n ? *latest : mean_result(x, least);
    if (announce(x, &m) < 0)
        return x->e->code;
    return announce_result(x);
}

static int send_report(struct exchange *x)
{
    struct stop_vote *v = &x->stop_vote;
    const struct stop_vote_report r = {v->own, v->known};

    v->reported_to = stop_vote_coordinator(x);
    if (v->reported_to != x->cfg.node)
        return stop_vote_send(x, v->reported_to, STOP_VOTE_REPORT, STOP_NONE, &r, sizeof r);
    v->reports[x->cfg.node] = r;
    return announce_result(x);
}

int stop_vote_share(struct exchange *x, uint64_t step, double loss, double accuracy, struct err *e)
{
    struct stop_vote *v = &x->stop_vote;

    x->e = e;
    v->own = (struct stop_vote_result){v->own.n + 1, step, loss, accuracy};
    v->waits = x->cfg.is_sync;
    if (send_report(x) < 0)
        return e->code;
    return v->waits ? CODEC_WAIT : CODEC_GO;
}

static bool can_be(const struct exchange *x, const struct stop_vote_result *r)
{
    return r->n <= x->stop_vote.n_most && (r->accuracy >= 0 || isnan(r->accuracy)) && !(r->accuracy > 1);
}

static int on_report(struct exchange *x, const struct mesh_head *h, const struct mesh_buf *b)
{
    struct stop_vote_report r, *last = h->peer >= 0 ? &x->stop_vote.reports[h->peer] : NULL;

    if (!last || b->len != sizeof r || h->round != STOP_NONE ||
        (exchange_is_server(x) && x->cfg.node != FIRST_SERVER))
        return refuse_result(x, h->peer);
    memcpy(&r, b->bytes, sizeof r);
    if (!can_be(x, &r.own) || !can_be(x, &r.known) || r.own.n < last->own.n || r.known.n > r.own.n)
        return refuse_result(x, h->peer);
    last->own = r.own;
    if (r.known.n > last->known.n) /* otherwise a later result is in transit to it */
        last->known = r.known;
    return stop_vote_coordinator(x) == x->cfg.node ? announce_result(x) : CODEC_GO;
}

/* The n-th mean exists only after each worker has made n evaluations, this worker included. In asgd a
 * decision may also reach a worker that the coordinator counts as lost; the worker obeys it. */
static int on_result(struct exchange *x, const struct mesh_head *h, const struct mesh_buf *b)
{
    struct stop_vote *v = &x->stop_vote;
    bool may_send = x->cfg.n_servers == 0 ||
                    (exchange_is_server(x) ? x->cfg.node != FIRST_SERVER : h->peer == FIRST_SERVER);
    enum stop_reason ignored;
    struct stop_vote_result r;

    if (!may_send || b->len != sizeof r || h->round >= N_STOP_REASONS)
        return refuse_result(x, h->peer);
    memcpy(&r, b->bytes, sizeof r);
    if (r.n == 0 || !can_be(x, &r) ||
        (!exchange_is_server(x) && r.n > v->own.n && (x->cfg.is_sync || h->round == STOP_NONE)))
        return refuse_result(x, h->peer);
    if (r.n <= v->known.n)
        return CODEC_GO; /* another worker has forwarded it */
    if (stop_rule_add(&ignored, &v->rule, r.loss, r.accuracy, x->e) < 0 ||
        take_result(x, &r, (enum stop_reason)h->round) < 0)
        return x->e->code;
    return exchange_is_server(x) ? CODEC_GO : forward_result(x, &r, (enum stop_reason)h->round);
}

static int on_stop(struct exchange *x, const struct mesh_head *h, const struct mesh_buf *b)
{
    struct stop_vote *v = &x->stop_vote;

    if (h->peer >= 0 || exchange_is_server(x) || b->len > 0)
        return refuse_result(x, h->peer);
    if (v->stop.reason == STOP_NONE)
        v->stop = (struct stop){STOP_CODEC, x->channels[0].run.step, NAN, NAN};
    return CODEC_GO;
}

int stop_vote_on_message(struct exchange *x, const struct mesh_event *ev)
{
    static int (*const of_kind[STOP_VOTE_KINDS])(struct exchange *, const struct mesh_head *,
                                                 const struct mesh_buf *) = {
        [STOP_VOTE_REPORT] = on_report,
        [STOP_VOTE_RESULT] = on_result,
        [STOP_VOTE_STOP] = on_stop,
        [STOP_VOTE_FINISHED] = finish_vote_on_finished,
        [STOP_VOTE_LAST] = finish_vote_on_last,
        [STOP_VOTE_POINT] = save_vote_on_point,
        [STOP_VOTE_SAVED] = save_vote_on_saved,
        [STOP_VOTE_PART] = test_sum_on_part,
        [STOP_VOTE_TOTAL] = test_sum_on_total};
    uint32_t kind = ev->head.index;

    if (kind >= STOP_VOTE_KINDS || (kind <= STOP_VOTE_RESULT && !x->stop_vote.is_on))
        return refuse_result(x, ev->head.peer);
    return of_kind[kind](x, &ev->head, ev->buf);
}

int stop_vote_send_stop(struct exchange *x)
{
    struct stop_vote *v = &x->stop_vote;

    if (!exchange_is_server(x) || v->has_sent_stop || !x->channels[0].run.wants_stop)
        return CODEC_GO;
    v->has_sent_stop = true;
    v->stop = (struct stop){.reason = STOP_CODEC, .loss = NAN, .accuracy = NAN};
    return stop_vote_send_workers(x, STOP_VOTE_STOP, STOP_NONE, NULL, 0);
}

int stop_vote_update(struct exchange *x)
{
    struct stop_vote *v = &x->stop_vote;

    if (stop_vote_send_stop(x) < 0)
        return x->e->code;
    if (!v->is_on || v->n_left == x->n_left)
        return CODEC_GO;
    v->n_left = x->n_left;
    if (!exchange_is_server(x) && v->reported_to != stop_vote_coordinator(x) && v->own.n > 0)
        return send_report(x);
    return stop_vote_coordinator(x) == x->cfg.node ? announce_result(x) : CODEC_GO;
}

/* On the coordinator: the first worker whose result is missing while other workers wait. */
static int missing(const struct exchange *x)
{
    const struct stop_vote *v = &x->stop_vote;
    uint64_t most = v->known.n;

    for (int k = 0; k < x->cfg.n_workers; k++)
        if (stop_vote_is_present(x, k) && v->reports[k].own.n > most)
            most = v->reports[k].own.n;
    for (int k = 0; most > v->known.n && k < x->cfg.n_workers; k++)
        if (stop_vote_is_present(x, k) && v->reports[k].own.n < most)
            return k;
    return STALL_NO_NODE;
}

int stop_vote_awaits(const struct exchange *x)
{
    const struct stop_vote *v = &x->stop_vote;

    if (!v->is_on || !x->cfg.is_sync)
        return STALL_NO_NODE;
    if (stop_vote_coordinator(x) == x->cfg.node)
        return missing(x);
    return v->waits ? stop_vote_coordinator(x) : STALL_NO_NODE;
}

void stop_vote_waits_for(const struct exchange *x, char *out, size_t size)
{
    const struct stop_vote *v = &x->stop_vote;
    int node = stop_vote_awaits(x);

    if (stop_vote_coordinator(x) == x->cfg.node)
        snprintf(out, size, "node %d's result of the evaluation after step %" PRIu64, node, v->own.step);
    else
        snprintf(out, size, "node %d's message about the evaluation after step %" PRIu64, node, v->own.step);
}

/* The end of a job by a decision. */

bool stop_vote_must_close(const struct exchange *x)
{
    bool ends_early = x->stop_vote.stop.reason != STOP_NONE || x->feed.is_over;

    return ends_early && !x->stop_vote.has_closed && x->channels[0].run.step < x->cfg.n_steps;
}

bool stop_vote_closes_within_round(const struct exchange *x)
{
    return exchange_has_local_steps(x) && x->channels[0].run.step % x->cfg.local_steps != 0;
}

bool stop_vote_close_changes(const struct exchange *x)
{
    return stop_vote_must_close(x) &&
           (stop_vote_closes_within_round(x) || (x->is_late && exchange_has_local_steps(x)));
}
