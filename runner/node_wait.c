/* node_wait -- how a node receives messages while it computes, and how it waits for its peers (node.h). */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "runner/exchange/barrier.h"
#include "runner/exchange/stall.h"
#include "runner/node.h"
#include "shared/base/clock.h"

enum {
    RECEIVED_MAX =
        32, /* messages of each peer before computing continues, because a peer may flood this node */
    KEPT_MESSAGES = 4, /* of each peer, of the longest ones */
    KEPT_BYTES = 1 << 20
};

/* Seconds in which the peers can read why this node ends: when its process ends, its connections are
 * reset. */
static const double DELIVER_S = 0.25;

/* --round-timeout of a training program's first round, at least. */
static const double FIRST_ROUND_S = 600;

static double wait_timeout(const struct node *n)
{
    bool is_first = n->set.trainer[0] && exchange_rounds(n->exchange) == n->first_round;

    return is_first ? fmax(n->set.round_timeout_s, FIRST_ROUND_S) : n->set.round_timeout_s;
}

int node_waits_for(const struct node *n)
{
    return n->is_held_up ? stall_blocking_node(n->exchange, wait_timeout(n)) : STALL_NO_NODE;
}

void node_wait_begin(struct node_wait *w, const struct node *n, double now)
{
    w->deadline = now + wait_timeout(n);
    w->report_at = now + stall_period(n->set.round_timeout_s);
}

double node_wait_until(const struct node_wait *w)
{
    return fmin(w->deadline, w->report_at);
}

static void deliver_queued(struct node *n)
{
    double until = clock_now() + DELIVER_S;
    struct mesh_event ev;
    struct err ignored;

    while (clock_now() < until && mesh_poll(n->mesh, &ev, until, &ignored) == 0)
        if (ev.kind == MESH_MESSAGE)
            mesh_buf_put(ev.buf);
}

static int end_wait(struct node *n, struct err *e)
{
    double timeout_s = wait_timeout(n);
    int awaited = stall_awaits(n->exchange), blocking = stall_blocking_node(n->exchange, timeout_s);
    char waiting[128], other[32] = "", why[96] = "";

    stall_send_timeout(n->exchange, blocking);
    deliver_queued(n);
    exchange_waits_for(n->exchange, waiting, sizeof waiting);
    if (blocking != awaited && blocking != STALL_NO_NODE)
        snprintf(other, sizeof other, "node %d holds up the job: ", blocking);
    if (stall_computes(n->exchange, blocking, timeout_s))
        snprintf(why, sizeof why, ": %.40s on node %d computes, and has not called psgd", n->set.trainer,
                 blocking);
    if (exchange_must_wait(n->exchange))
        err_set(e, ERR_TIMEOUT, "%sa peer has not accepted messages for %g s%s", other, timeout_s, why);
    else
        err_set(e, ERR_TIMEOUT, "%s%s has not arrived for %g s%s", other, waiting, timeout_s, why);
    return err_hint(e, "Is that node slow or stuck? --round-timeout sets the limit.");
}

int node_wait_check(struct node_wait *w, struct node *n, struct err *e)
{
    double now = clock_now();

    if (now >= w->deadline)
        return end_wait(n, e);
    if (now < w->report_at)
        return 0;
    w->report_at = now + stall_period(n->set.round_timeout_s);
    n->is_held_up = true;
    if (stall_send_wait(n->exchange, e) < 0)
        return e->code;
    if (!n->executing)
        return node_report_progress(n, e);
    n->execution->report(n);
    return 0;
}

/* Bytes of one peer's messages; or less than KEPT_BYTES in all. */
static size_t kept_limit(const struct node *n)
{
    size_t limit = KEPT_MESSAGES * n->mesh->pool->limit;

    return n->n_peers * (limit > KEPT_BYTES ? limit : KEPT_BYTES);
}

static int keep_event(struct node *n, const struct mesh_event *ev, struct err *e)
{
    if (n->n_kept == n->room_kept) {
        size_t room = n->room_kept ? 2 * n->room_kept : 16;
        struct mesh_event *kept = realloc(n->kept, room * sizeof *kept);

        if (!kept) {
            mesh_buf_put(ev->buf);
            return err_set(e, ERR_NOMEM, "no memory for %zu messages", room);
        }
        n->kept = kept;
        n->room_kept = room;
    }
    n->kept[n->n_kept++] = *ev;
    n->bytes_kept += ev->buf ? ev->buf->len : 0;
    return 0;
}

int node_keep_events(struct node *n, bool *is_full, struct err *e)
{
    for (;;) {
        struct mesh_event ev;
        int rc;

        *is_full = n->n_kept - n->first_kept >= n->n_peers * RECEIVED_MAX || n->bytes_kept >= kept_limit(n);
        if (*is_full)
            return 0;
        if (mesh_poll(n->mesh, &ev, 0, e) < 0)
            return e->code;
        rc = exchange_on_kept(n->exchange, &ev, e);
        if (rc < 0 || (rc == 0 && keep_event(n, &ev, e) < 0))
            return e->code;
        if (ev.kind == MESH_NOTHING)
            return 0;
    }
}

void node_drop_kept(struct node *n)
{
    for (; n->first_kept < n->n_kept; n->first_kept++)
        mesh_buf_put(n->kept[n->first_kept].buf);
    n->first_kept = n->n_kept = n->bytes_kept = 0;
}

static struct mesh_event take_kept(struct node *n)
{
    const struct mesh_event ev = n->kept[n->first_kept++];

    if (n->first_kept == n->n_kept)
        n->first_kept = n->n_kept = n->bytes_kept = 0;
    return ev;
}

int node_pump(struct node *n, double deadline, bool *came, struct err *e)
{
    struct mesh_event ev;
    double slice = clock_now() + 1; /* a signal just before the wait takes effect a second later */

    slice = fmin(slice, exchange_wakes_at(n->exchange));
    if (n->n_kept > 0)
        ev = take_kept(n);
    else if (mesh_poll(n->mesh, &ev, deadline < slice ? deadline : slice, e) < 0)
        return e->code;
    /* A peer's report of what it waits for (FRAME_WAIT) does not end this node's own wait. */
    *came = ev.kind != MESH_NOTHING && (ev.kind != MESH_MESSAGE || ev.head.kind != FRAME_WAIT);
    if (node_heed_signals(n, e) < 0) {
        mesh_buf_put(ev.buf);
        return e->code;
    }
    return n->executing ? exchange_on_event(n->exchange, &ev, e) : worker_event(&n->worker, &ev, e);
}

int node_receive(struct node *n, struct err *e)
{
    size_t left = n->n_peers * RECEIVED_MAX + 1;
    bool came = true;

    while (came && left-- > 0)
        if (node_pump(n, 0, &came, e) < 0)
            return e->code;
    return 0;
}

int node_catch_up(struct node *n, struct err *e)
{
    struct stopwatch *watch = exchange_watch(n->exchange);
    enum phase last = phase_enter(watch, PHASE_WAIT);
    struct node_wait wait;
    bool came;

    node_wait_begin(&wait, n, stopwatch_since(watch));
    if (node_receive(n, e) < 0 ||
        barrier_send_computing(n->exchange, stall_period(n->set.round_timeout_s), e) < 0)
        return e->code;
    while (exchange_must_wait(n->exchange))
        if (node_pump(n, node_wait_until(&wait), &came, e) < 0 ||
            (exchange_must_wait(n->exchange) && node_wait_check(&wait, n, e) < 0))
            return e->code;
    n->is_held_up = false;
    phase_enter(watch, last);
    return 0;
}
