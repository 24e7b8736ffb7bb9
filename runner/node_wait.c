/* node_wait -- a node's waits for its peers (node.h). */
#include <math.h>
#include <stdio.h>

#include "runner/exchange/stall.h"
#include "runner/node.h"
#include "shared/base/clock.h"

/* Seconds in which the peers can read why this node ends: when its process ends, its connections are
 * reset. */
static const double DELIVER_S = 0.25;

int node_waits_for(const struct node *n)
{
    return n->is_held_up ? exchange_culprit(n->exchange, n->set.round_timeout_s) : STALL_NO_NODE;
}

void node_wait_begin(struct node_wait *w, const struct node *n, double now)
{
    w->deadline = now + n->set.round_timeout_s;
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
    double timeout_s = n->set.round_timeout_s;
    int awaited = exchange_awaits(n->exchange), culprit = exchange_culprit(n->exchange, timeout_s);
    char waiting[128], other[32] = "";

    exchange_send_timeout(n->exchange, culprit);
    deliver_queued(n);
    exchange_waits_for(n->exchange, waiting, sizeof waiting);
    if (culprit != awaited && culprit != STALL_NO_NODE)
        snprintf(other, sizeof other, "node %d holds up the job: ", culprit);
    if (exchange_must_wait(n->exchange))
        err_set(e, ERR_TIMEOUT, "%sa peer has not accepted messages for %g s", other, timeout_s);
    else
        err_set(e, ERR_TIMEOUT, "%s%s has not arrived for %g s", other, waiting, timeout_s);
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
    if (exchange_send_wait(n->exchange, e) < 0)
        return e->code;
    if (!n->executing)
        return node_report_progress(n, e);
    node_report_executing(n);
    return 0;
}
