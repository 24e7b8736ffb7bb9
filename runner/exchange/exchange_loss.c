/* What an exchange does when a node leaves or is lost: it notifies rounds and codecs, and decides whether the
 * job continues. */
#include <stdio.h>

#include "runner/exchange/exchange_private.h"

bool exchange_waits(const struct exchange *x)
{
    for (int i = 0; i < x->n_channels; i++)
        if (x->channels[i].is_waiting)
            return true;
    return x->feed.waits || x->stop_vote.waits || exchange_is_at_barrier(x);
}

/* An early contribution to the next round does not end the wait for this one. */
int exchange_end_wait(struct channel *ch, int rc)
{
    if (rc == CODEC_GO && ch->round.stage == ROUND_OPEN)
        ch->is_waiting = false;
    return rc;
}

/* Each channel's round may be able to continue now, and its codec may have a callback for the loss. */
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

int exchange_on_left(struct exchange *x, int node)
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

int exchange_on_lost(struct exchange *x, const struct mesh_event *ev)
{
    int node = ev->head.peer;
    bool has_ended = exchange_has_barriers(x) && x->peer_stats.has_left[exchange_slot(x, node)];
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
