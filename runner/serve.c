/* serve -- drives a parameter server (runner/core/worker.h) in real time, until its last worker has left. */
#include "runner/exchange/barrier.h"
#include "runner/exchange/stall.h"
#include "runner/node.h"
#include "shared/base/clock.h"

struct serving {
    struct node *n;
    bool came; /* an event has arrived in the last wait */
    struct {
        int by; /* the worker for which the round has waited since `since`; STALL_NO_NODE: no worker */
        uint64_t round;
        double since, reported_at;
    } held_up;
};

/* The waits of a server have no timeout, but those of its workers do: the server reports to them for which
 * worker it waits. */
static int report_wait(struct serving *s, struct err *e)
{
    struct node *n = s->n;
    double now = clock_now(), period = stall_period(n->set.round_timeout_s);
    int by = stall_awaits(n->exchange);

    /* At a barrier the other workers' rounds continue. */
    if (by != s->held_up.by ||
        (!barrier_is_used(n->exchange) && exchange_rounds(n->exchange) != s->held_up.round)) {
        s->held_up.by = by;
        s->held_up.round = exchange_rounds(n->exchange);
        s->held_up.since = s->held_up.reported_at = now;
    }
    n->is_held_up = by != STALL_NO_NODE && now >= s->held_up.since + period;
    if (by == STALL_NO_NODE || now < s->held_up.reported_at + period)
        return 0;
    s->held_up.reported_at = now;
    return stall_send_wait(n->exchange, e);
}

/* Workers may compute for any time; a crashed worker is detected by its connection. */
static int wait_for_event(void *owner, const struct worker_request *request, struct err *e)
{
    struct serving *s = owner;
    struct node *n = s->n;
    double period = stall_period(n->set.round_timeout_s);

    (void)request;
    barrier_drop_silent(n->exchange, node_codec_share * n->set.round_timeout_s);
    if (node_pump(n, clock_now() + period, &s->came, e) < 0 || report_wait(s, e) < 0 ||
        barrier_send_under_way(n->exchange, period, e) < 0)
        return e->code;
    return 0;
}

static int record_rounds(void *owner, const struct worker_request *request, struct err *e)
{
    const struct serving *s = owner;
    struct node *n = s->n;
    bool is_due = !s->came || report_is_due(n->report, stopwatch_since(exchange_watch(n->exchange)));

    (void)request;
    if (node_record_comm(n, e) < 0)
        return e->code;
    node_snapshot(n);
    return is_due ? node_report_progress(n, e) : 0;
}

int node_serve(struct node *n, struct err *e)
{
    static node_does *const doing[N_WORKER_WANTS] = {
        [WORKER_WAITS] = wait_for_event, [WORKER_RECORDS] = record_rounds};
    struct serving s = {.n = n, .held_up = {.by = STALL_NO_NODE}};

    return node_live(n, doing, &s, e) < 0 ? e->code : node_report_progress(n, e);
}
