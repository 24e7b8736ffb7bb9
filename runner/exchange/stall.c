#include "runner/exchange/stall.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "runner/exchange/exchange_private.h"

enum { WAITS, TIMED_OUT, COMPUTES, N_REPORTS }; /* the frame's round */
#define NO_SLOT UINT32_MAX                      /* the frame's index, if it is no slot */

/* A peer counts as waiting for so many periods after its last report. */
static const double STALE = 3;

void stall_open(struct stall *s, int n)
{
    *s = (struct stall){.n = n};
}

void stall_clear(struct stall *s)
{
    free(s->reports);
    *s = (struct stall){0};
}

static const struct stall_report *report_of(const struct exchange *x, int slot)
{
    static const struct stall_report none;

    return x->stall.reports ? &x->stall.reports[slot] : &none;
}

double stall_period(double timeout_s)
{
    return fmin(1, timeout_s / 4);
}

int stall_awaits(const struct exchange *x)
{
    int node = x->feed.waits ? FEED_SERVER : stop_vote_awaits(x);

    if (node == STALL_NO_NODE)
        node = finish_vote_awaits(x);
    if (node == STALL_NO_NODE)
        node = save_vote_awaits(x);
    if (node == STALL_NO_NODE)
        node = test_sum_awaits(x);
    if (node == STALL_NO_NODE)
        node = barrier_awaits(x);
    if (node != STALL_NO_NODE)
        return node;
    for (int i = 0; i < x->n_channels; i++) {
        const struct channel *ch = &x->channels[i];

        if (ch->is_waiting || (ch->rule && x->cfg.node < 0))
            return x->handlers.awaits(ch);
    }
    return STALL_NO_NODE;
}

static bool is_linked(const struct exchange *x, int slot)
{
    return exchange_needs_link(x, mesh_node_at(x->cfg.n_workers, slot)) && !x->peer_stats.has_left[slot];
}

/* A peer whose queue is not empty gets no report, because it does not read at present. */
static int send_reports(struct exchange *x, int node, uint64_t what, struct err *e)
{
    struct mesh_head h = {.kind = FRAME_WAIT,
                          .index = node == STALL_NO_NODE ? NO_SLOT : (uint32_t)exchange_slot(x, node),
                          .round = what};
    struct mesh_buf *b = mesh_buf_take(x->mesh);
    int rc = CODEC_GO;

    if (!b)
        return err_set(e, ERR_NOMEM, "no memory for a message");
    b->len = 0;
    for (int slot = 0; slot < x->stall.n && rc == CODEC_GO; slot++) {
        h.peer = mesh_node_at(x->cfg.n_workers, slot);
        if ((is_linked(x, slot) || barrier_still_receives(x, h.peer)) &&
            mesh_queued_for(x->mesh, h.peer) == 0 && mesh_send(x->mesh, &h, b, e) < 0)
            rc = e->code;
    }
    mesh_buf_put(b);
    return rc;
}

static double recent(const struct exchange *x, double timeout_s)
{
    return stopwatch_now(x->watch) - STALE * stall_period(timeout_s);
}

/* The last node of the chain of waits; STALL_NO_NODE: not known. Follows at most n reports, because nodes
 * that wait for each other form a cycle. */
static int end_of_chain(const struct exchange *x, double since)
{
    int node = stall_awaits(x);

    for (int i = 0; i < x->stall.n && node != STALL_NO_NODE; i++) {
        const struct stall_report *w = report_of(x, exchange_slot(x, node));

        if (w->at < since || w->node == x->cfg.node)
            return node;
        node = w->node;
    }
    return STALL_NO_NODE;
}

/* A peer that has no link to the node that this one waits for gets no report of it. */
int stall_send_wait(struct exchange *x, struct err *e)
{
    int node = x->links ? end_of_chain(x, recent(x, INFINITY)) : stall_awaits(x);

    return send_reports(x, node, WAITS, e);
}

int stall_send_computing(struct exchange *x, struct err *e)
{
    return send_reports(x, STALL_NO_NODE, COMPUTES, e);
}

void stall_send_timeout(struct exchange *x, int blocking)
{
    struct err ignored;

    send_reports(x, blocking, TIMED_OUT, &ignored);
}

bool stall_list_waiting(const struct exchange *x, double timeout_s, char *out, size_t size)
{
    double since = recent(x, timeout_s);
    char nodes[64] = "";
    size_t at = 0;
    int n = 0;

    for (int slot = 0; slot < x->stall.n; slot++) {
        const struct stall_report *w = report_of(x, slot);

        if (w->at == 0 || w->at < since || w->node != x->cfg.node)
            continue;
        if (at < sizeof nodes)
            at += (size_t)snprintf(nodes + at, sizeof nodes - at, "%s%d", n > 0 ? ", " : "",
                                   mesh_node_at(x->cfg.n_workers, slot));
        n++;
    }
    if (at >= sizeof nodes)
        snprintf(out, size, "%d nodes wait", n);
    else
        snprintf(out, size, n > 1 ? "nodes %s wait" : "node %s waits", nodes);
    return n > 0;
}

/* The only linked peer without a recent report; STALL_NO_NODE: there is none, or there are several. */
static int silent_peer(const struct exchange *x, double since)
{
    int node = STALL_NO_NODE;

    for (int slot = 0; slot < x->stall.n; slot++) {
        if (!is_linked(x, slot) || report_of(x, slot)->at >= since)
            continue;
        if (node != STALL_NO_NODE)
            return STALL_NO_NODE;
        node = mesh_node_at(x->cfg.n_workers, slot);
    }
    return node;
}

bool stall_computes(const struct exchange *x, int node, double timeout_s)
{
    return node != STALL_NO_NODE && node != x->cfg.node &&
           report_of(x, exchange_slot(x, node))->computed_at > fmax(0, recent(x, timeout_s));
}

int stall_blocking_node(const struct exchange *x, double timeout_s)
{
    double since = recent(x, timeout_s);
    int node = end_of_chain(x, since);

    return node != STALL_NO_NODE ? node : silent_peer(x, since);
}

int stall_on_report(struct exchange *x, const struct mesh_head *h, struct err *e)
{
    struct stall_report *w;
    int node = STALL_NO_NODE;

    if (!x->stall.reports && !(x->stall.reports = calloc((size_t)x->stall.n, sizeof *x->stall.reports)))
        return err_set(e, ERR_NOMEM, "no memory for the reports of %d nodes", x->stall.n);
    w = &x->stall.reports[exchange_slot(x, h->peer)];
    if (h->round >= N_REPORTS || (h->index != NO_SLOT && h->index >= (uint32_t)x->stall.n))
        return err_set(e, ERR_PROTOCOL, "node %d waits for a node that the job does not have", h->peer);
    if (h->index != NO_SLOT)
        node = mesh_node_at(x->cfg.n_workers, (int)h->index);
    if (h->round == COMPUTES) {
        w->computed_at = stopwatch_now(x->watch);
        return CODEC_GO;
    }
    w->at = stopwatch_now(x->watch);
    w->node = node;
    if (h->round == WAITS || x->cfg.goes_on || node == STALL_NO_NODE)
        return CODEC_GO;
    if (x->links) /* its sender has not reached all nodes */
        stall_send_timeout(x, node);
    if (node == x->cfg.node)
        return err_set(e, ERR_TIMEOUT,
                       "this node, node %d, holds up the job: node %d has waited for it too long", node,
                       h->peer);
    return err_set(
        e, ERR_TIMEOUT, "node %d holds up the job: node %d has waited for it too long%s", node, h->peer,
        stall_computes(x, node, INFINITY) ? "; its training program computes, and has not called psgd" : "");
}
