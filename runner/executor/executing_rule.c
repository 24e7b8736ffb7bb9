/* executing_rule -- the event rule by which executors exchange messages and vectors, and the waits for it. */
#include <stdio.h>
#include <string.h>

#include "runner/exchange/exchange_private.h"
#include "runner/executor/executing.h"
#include "shared/base/clock.h"

/* The state of the rule. */
static struct executing *executing_in(const struct codec *c)
{
    return *(struct executing **)c->state;
}

static bool has_message(const struct executing *ex, int from)
{
    return ex->mailboxes[from].first != NULL;
}

/* Any message may arrive during any wait; a wait for something else then continues. */
static int on_message(struct codec *c, int from, struct wire_in *in)
{
    struct executing *ex = executing_in(c);
    struct err e;

    if (mailbox_take_in(&ex->mailboxes[from], in, &e) < 0)
        return err_set(ex->channel->x->e, e.code, "node %d: %s", from, e.text);
    return ex->channel->awaited == from && has_message(ex, from) ? CODEC_GO : CODEC_WAIT;
}

static int on_collective(struct codec *c)
{
    (void)c;
    return CODEC_GO;
}

static size_t message_bytes(const struct codec *c)
{
    (void)c;
    return MAILBOX_HEAD + MAILBOX_PIECE;
}

int executing_open_rule(struct executing *ex, struct err *e)
{
    static const struct codec_events events = {.on_message = on_message, .on_collective = on_collective};
    static const struct codec_more more = {
        .events = &events, .message_bytes = message_bytes, .compression = CODEC_UNCOMPRESSED};
    static float nothing[1]; /* there are no parameters */
    struct node *n = ex->n;
    struct exchange_config cfg = exchange_config_of(&n->set, n->job.node);

    ex->rule = (struct codec_plugin){.name = n->codec.executor->name, .state_size = sizeof ex, .more = &more};
    cfg.plugin = &ex->rule;
    cfg.blocks = &n->blocks;
    cfg.params = cfg.grads = nothing;
    cfg.owner = n;
    cfg.watch = n->monitor->watch;
    if (exchange_new(&n->exchange, &cfg, e) < 0)
        return e->code;
    ex->channel = exchange_channel(n->exchange, 0);
    memcpy(ex->channel->codec.state, &ex, sizeof ex);
    return 0;
}

/* The timeout restarts with each part of what is waited for. */
int executing_wait(struct executing *ex, struct err *e)
{
    struct node *n = ex->n;
    int from = ex->channel->awaited;
    char waiting[128] = "", now[128];
    struct node_wait wait;
    uint64_t n_pieces = 0;
    bool came;

    node_wait_begin(&wait, n, clock_now());
    while (exchange_waits(n->exchange)) {
        exchange_waits_for(n->exchange, now, sizeof now);
        if (strcmp(now, waiting) != 0 || (from >= 0 && ex->mailboxes[from].n_pieces != n_pieces))
            node_wait_begin(&wait, n, clock_now());
        memcpy(waiting, now, sizeof now);
        n_pieces = from >= 0 ? ex->mailboxes[from].n_pieces : 0;
        if (node_pump(n, node_wait_until(&wait), &came, e) < 0 ||
            (exchange_waits(n->exchange) && node_wait_check(&wait, n, e) < 0))
            return e->code;
    }
    n->is_held_up = false;
    return 0;
}

static void await_node(struct executing *ex, int node)
{
    ex->channel->awaited = node;
    ex->channel->is_waiting = node >= 0;
}

int executing_wait_for(struct executing *ex, int from, struct err *e)
{
    int rc;

    if (has_message(ex, from))
        return 0;
    if (channel_has_left(ex->channel, from))
        return err_set(e, ERR_LOST, "node %d has ended, and has sent no further message", from);
    await_node(ex, from);
    rc = executing_wait(ex, e);
    await_node(ex, -1);
    return rc;
}

int executing_send(struct executing *ex, int to, const char *bytes, size_t n, struct err *e)
{
    struct codec *c = &ex->channel->codec;
    size_t k, at = 0;

    do {
        if (channel_has_left(ex->channel, to))
            return err_set(e, ERR_LOST, "node %d has ended, and receives no further message", to);
        ex->channel->x->e = e;
        k = mailbox_put(codec_message(c), n > 0 ? bytes + at : "", n - at);
        if (codec_send(c, to) < 0 || node_catch_up(ex->n, e) < 0)
            return e->code;
        at += k;
    } while (at < n);
    return 0;
}
