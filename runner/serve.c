/* serve -- a parameter server's loop: receives from workers until the last one has left. */
#include "runner/exchange/barrier.h"
#include "runner/exchange/exchange_state.h"
#include "runner/exchange/stall.h"
#include "runner/exchange/verdict.h"
#include "runner/node.h"
#include "runner/snapshot.h"
#include "shared/base/clock.h"

/* Writes the checkpoints that are due. A server takes no steps: it is at the end of an epoch when it has
 * closed as many rounds as the workers have by then. Rounds close one at a time, so none is missed. *next:
 * the first epoch without a checkpoint. */
static int keep(struct node *n, int *next, struct err *e)
{
    struct stopwatch *watch = exchange_watch(n->exchange);

    bool is_over = exchange_stopped(n->exchange)->reason != STOP_NONE; /* an early last round ends no epoch */

    for (; !is_over && !exchange_has_barriers(n->exchange) && *next <= n->set.epochs; ++*next) {
        enum phase last;
        uint64_t step = (uint64_t)*next * (uint64_t)n->set.steps_per_epoch;

        if (step > settings_steps(&n->set) ||
            exchange_rounds_after(n->exchange, step) > exchange_rounds(n->exchange))
            return 0;
        if (!node_keeps_epoch(n, *next))
            continue;
        last = phase_enter(watch, PHASE_CHECKPOINT);
        if (node_write_checkpoint(n, *next, e) < 0)
            return e->code;
        phase_enter(watch, last);
    }
    return 0;
}

/* In a job with barriers: writes the checkpoint of one that all workers are at, and lets them go on. At the
 * last one there is none: the one of the last epoch, if it is kept, is written at that epoch's. */
static int release(struct node *n, struct err *e)
{
    struct stopwatch *watch = exchange_watch(n->exchange);
    enum barrier_kind kind;
    uint64_t epoch;

    if (!exchange_is_reached(n->exchange, &kind, &epoch))
        return 0;
    if (kind == BARRIER_EPOCH && epoch <= (uint64_t)n->set.epochs && node_keeps_epoch(n, (int)epoch)) {
        enum phase last = phase_enter(watch, PHASE_CHECKPOINT);

        if (node_write_checkpoint(n, (int)epoch, e) < 0)
            return e->code;
        phase_enter(watch, last);
    }
    return exchange_release(n->exchange, e);
}

/* The worker that a round has waited for, since when. */
struct held_up {
    int by; /* STALL_NO_NODE: no worker */
    uint64_t round;
    double since, told_at;
};

/* A server ends no wait: its workers do, who learn from it which of them it waits for. */
static int tell_who_holds_up(struct held_up *h, struct node *n, struct err *e)
{
    double now = clock_now(), period = stall_period(n->set.round_timeout_s);
    int by = exchange_awaits(n->exchange);

    /* At a barrier other workers go on. */
    if (by != h->by || (!exchange_has_barriers(n->exchange) && exchange_rounds(n->exchange) != h->round))
        *h = (struct held_up){by, exchange_rounds(n->exchange), now, now};
    n->is_held_up = by != STALL_NO_NODE && now >= h->since + period;
    if (by == STALL_NO_NODE || now < h->told_at + period)
        return 0;
    h->told_at = now;
    return exchange_tell_wait(n->exchange, e);
}

int node_serve(struct node *n, struct err *e)
{
    struct stopwatch *watch = exchange_watch(n->exchange);
    int next = n->first_epoch + 1;
    struct held_up held = {0};

    phase_enter(watch, PHASE_WAIT);
    if (keep(n, &next, e) < 0)
        return e->code;
    while (!exchange_is_over(n->exchange)) {
        bool came;

        exchange_drop_silent(n->exchange, node_codec_share * n->set.round_timeout_s);
        /* Workers may compute for any time; a dead one is detected by its connection. */
        if (node_pump(n, clock_now() + stall_period(n->set.round_timeout_s), &came, e) < 0 ||
            tell_who_holds_up(&held, n, e) < 0 ||
            exchange_tell_under_way(n->exchange, stall_period(n->set.round_timeout_s), e) < 0)
            return e->code;
        phase_enter(watch, PHASE_COMPUTE);
        if (node_record_comm(n, e) < 0 || keep(n, &next, e) < 0 || release(n, e) < 0)
            return e->code;
        snapshot_take(n);
        if ((!came || report_is_due(n->report, stopwatch_since(watch))) && node_report_progress(n, e) < 0)
            return e->code;
        phase_enter(watch, PHASE_WAIT);
    }
    return node_report_progress(n, e);
}
