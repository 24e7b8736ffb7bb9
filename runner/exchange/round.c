/* round -- runs a round rule (struct codec_round).
 *
 *   between workers, ssgd   encode, send to the others, merge in order as contributions arrive, apply
 *   between workers, asgd   encode, send to workers without a long queue, merge the contributions that have
 *                           arrived, apply; no waiting
 *   worker of a server      encode, send to the server, wait for its reply, adopt it
 *   server, ssgd            merge every worker's contribution in order, apply, reply to all
 *                           (several servers may have to add up their parts before apply: whole.h)
 *   server, asgd            merge one contribution as it arrives, apply, reply to its sender
 *
 * In ssgd a node can be at most one round ahead of another, because its next round needs the other's
 * contribution to this one. With redundant blocks, nodes that need nothing from a slow node run ahead of it
 * until its inboxes are nearly full; it then pauses them, and they wait. If the job continues without lost
 * workers, round_loss.c decides when a round is complete. */
#include <stdio.h>
#include <stdlib.h>

#include "runner/exchange/exchange_private.h"

static bool is_server(const struct channel *ch)
{
    return ch->run.node < 0;
}

/* The draw of the workers that take part. */

static const uint64_t draw_stream = 0xd5a3; /* of random numbers */

static void free_draw(struct draw *d)
{
    if (!d)
        return;
    for (int k = 0; k < DRAW_ROUNDS; k++)
        free(d->rounds[k].takes_part);
    free(d->order);
    free(d);
}

/* NULL: no memory. */
static struct draw *new_draw(int n, int m, uint64_t seed)
{
    struct draw *d = calloc(1, sizeof *d);

    if (!d)
        return NULL;
    d->seed = seed;
    d->n = n;
    d->m = m;
    d->order = malloc((size_t)n * sizeof *d->order);
    for (int k = 0; k < DRAW_ROUNDS; k++)
        d->rounds[k].takes_part = malloc((size_t)n * sizeof(bool));
    if (d->order && d->rounds[0].takes_part && d->rounds[1].takes_part)
        return d;
    free_draw(d);
    return NULL;
}

bool round_has_drawn(struct draw *d, uint64_t round, int worker)
{
    size_t k = round % DRAW_ROUNDS;
    struct rng r;

    if (!d->rounds[k].is_known || d->rounds[k].round != round) {
        d->rounds[k].round = round;
        d->rounds[k].is_known = true;
        rng_init(&r, d->seed, draw_stream, round);
        for (int i = 0; i < d->n; i++) {
            d->order[i] = (uint32_t)i;
            d->rounds[k].takes_part[i] = false;
        }
        rng_shuffle(&r, d->order, (size_t)d->n);
        for (int i = 0; i < d->m; i++)
            d->rounds[k].takes_part[d->order[i]] = true;
    }
    return d->rounds[k].takes_part[worker];
}

/* Contributions received, by worker or by block, until they are merged. */

static bool has_redundancy(const struct channel *ch)
{
    return ch->round.draw || (ch->rule->per_block && ch->x->cfg.blocks->redundancy > 1);
}

/* Is there only room left for one contribution of each holder? A holder is paused after it has sent one. */
static bool is_nearly_full(const struct channel *ch, int k)
{
    return ch->round.inbox[k].n >= ch->round.depth - ch->x->cfg.blocks->redundancy;
}

int round_open(struct channel *ch)
{
    const struct exchange_config *cfg = &ch->x->cfg;
    struct round *r = &ch->round;
    bool is_synchronous_among_workers = ch->codec.is_sync && ch->run.n_servers == 0;

    if (cfg->n_drawn > 0 && cfg->n_drawn < cfg->n_workers && cfg->plugin->combine &&
        !(r->draw = new_draw(cfg->n_workers, cfg->n_drawn, cfg->seed)))
        return err_set(ch->x->e, ERR_NOMEM, "no memory for a draw of %d workers", cfg->n_workers);
    if (ch->server) /* a server's worker receives replies, not contributions */
        return CODEC_GO;
    r->n_contributions = ch->rule->per_block ? ch->run.n_blocks : ch->codec.n_workers;
    r->depth = cfg->blocks->redundancy + 3;
    r->inbox = calloc((size_t)r->n_contributions, sizeof *r->inbox);
    r->contributions = calloc((size_t)r->n_contributions * (size_t)r->depth, sizeof *r->contributions);
    if (!r->inbox || !r->contributions)
        return err_set(ch->x->e, ERR_NOMEM, "no memory for %d contributions", r->n_contributions);
    for (int w = 0; w < r->n_contributions; w++)
        r->inbox[w].contributions = r->contributions + w * r->depth;
    if (!cfg->goes_on || !is_synchronous_among_workers || has_redundancy(ch))
        return CODEC_GO;
    /* Contribution k is worker k's: without redundancy, so is block k, or the job is refused
     * (combine_path.c). */
    r->kept = calloc((size_t)r->n_contributions, sizeof(struct mesh_buf *));
    if (!r->kept || !agreement_open(&r->agreement, r->n_contributions, ch->run.node))
        return err_set(ch->x->e, ERR_NOMEM, "no memory for the statements of %d workers", r->n_contributions);
    return CODEC_GO;
}

static struct contribution pop_contribution(const struct channel *ch, struct round_inbox *in)
{
    struct contribution c = in->contributions[in->first];

    in->first = (in->first + 1) % ch->round.depth;
    in->n--;
    return c;
}

void round_discard(struct channel *ch, int k)
{
    while (ch->round.inbox[k].n > 0)
        mesh_buf_put(pop_contribution(ch, &ch->round.inbox[k]).buf);
}

void round_clear(struct channel *ch)
{
    for (int w = 0; ch->round.inbox && ch->round.contributions && w < ch->round.n_contributions; w++)
        round_discard(ch, w);
    for (int w = 0; ch->round.kept && w < ch->round.n_contributions; w++)
        mesh_buf_put(ch->round.kept[w]);
    mesh_buf_put(ch->round.early);
    free(ch->round.inbox);
    free(ch->round.contributions);
    free(ch->round.kept);
    round_undo_clear(&ch->round.undo);
    agreement_clear(&ch->round.agreement);
    free_draw(ch->round.draw);
    ch->round = (struct round){0};
}

void round_push(struct channel *ch, int k, struct mesh_buf *b, uint64_t round, int from)
{
    struct round_inbox *in = &ch->round.inbox[k];

    if (in->n == ch->round.depth) { /* only in asgd: the oldest is dropped */
        mesh_buf_put(pop_contribution(ch, in).buf);
        channel_overtaken(ch);
    }
    in->contributions[(in->first + in->n++) % ch->round.depth] = (struct contribution){
        .buf = b, .round = round, .from = from};
}

static bool is_ahead(const struct channel *ch, int worker)
{
    for (int k = 0; k < ch->round.n_contributions; k++)
        if (is_nearly_full(ch, k) && blocks_holds(ch->x->cfg.blocks, k, worker))
            return true;
    return false;
}

static void resume_workers(struct channel *ch)
{
    for (int w = 0; has_redundancy(ch) && w < ch->codec.n_workers; w++)
        if (w != ch->run.node && !is_ahead(ch, w))
            channel_pause(ch, w, false);
}

bool round_has(const struct channel *ch, int k)
{
    const struct round_inbox *in = &ch->round.inbox[k];

    return in->n > 0 && in->contributions[in->first].round == ch->run.round;
}

int round_sender(const struct channel *ch, int k)
{
    const struct round_inbox *in = &ch->round.inbox[k];

    return in->contributions[in->first].from;
}

int round_merge(struct channel *ch, int k)
{
    const struct round_inbox *in = &ch->round.inbox[k];
    struct contribution *c = &in->contributions[in->first];
    int rc;

    ch->round.sender = c->from;
    ch->run.block = ch->rule->per_block ? k : -1;
    rc = channel_decode(ch, PHASE_DECODE, "merge", ch->rule->merge, k, c->buf);
    ch->run.block = -1;
    c->saved = ch->compressing.saved_in;
    ch->run.n_merged++;
    return rc;
}

void round_take_out(struct channel *ch, int k)
{
    struct contribution c = pop_contribution(ch, &ch->round.inbox[k]);

    ch->compressing.saved_in = c.saved;
    if (c.from != ch->run.node)
        channel_received(ch, c.from, c.buf->len);
    if (ch->round.kept)
        ch->round.kept[k] = c.buf;
    else
        mesh_buf_put(c.buf);
}

bool round_can_still_come(const struct channel *ch, int k)
{
    const struct blocks *blocks = ch->x->cfg.blocks;

    if (ch->round.inbox[k].n > 0)
        return true;
    if (!ch->rule->per_block)
        return !channel_has_left(ch, k);
    for (int i = 0; i < blocks->redundancy; i++)
        if (!channel_has_left(ch, blocks->holders[k * blocks->redundancy + i]))
            return true;
    return false;
}

/* The number of contributions in a round. Where workers are drawn, each holds one block. */
static int round_size(const struct channel *ch)
{
    return ch->round.draw ? ch->round.draw->m : ch->round.n_contributions;
}

static int merge_one(struct channel *ch, int k)
{
    int rc = round_merge(ch, k);

    round_take_out(ch, k);
    return rc;
}

/* A server's reply to workers first .. last, one or all, which are in `round`. */
static int send_reply(struct channel *ch, int first, int last, uint64_t round)
{
    struct mesh_head h = {.kind = FRAME_REPLY, .channel = ch->id, .round = round};
    double seconds;
    struct mesh_buf *b;
    int rc;

    ch->compressing.to = first;
    b = channel_encode(ch, "reply", ch->rule->reply, &seconds);
    rc = b ? CODEC_GO : -1;
    for (h.peer = first; rc == CODEC_GO && h.peer <= last; h.peer++, seconds = 0)
        if (!channel_has_left(ch, h.peer))
            rc = channel_send(ch, &h, b, seconds);
    mesh_buf_put(b);
    return rc;
}

/* Sends a contribution to the server, or to the workers that lack it, and then keeps it in the own inbox.
 * Takes over the reference to b. */
static int send_contribution(struct channel *ch, int k, struct mesh_buf *b, double encode_s)
{
    struct mesh_head h = {.kind = FRAME_CONTRIBUTION,
                          .peer = ch->server,
                          .channel = ch->id,
                          .index = (uint32_t)k,
                          .round = ch->run.round};
    int rc = ch->server ? channel_send(ch, &h, b, encode_s) : CODEC_GO;

    for (int w = 0; rc == CODEC_GO && !ch->server && w < ch->codec.n_workers; w++) {
        if (w == ch->run.node || channel_has_left(ch, w) ||
            (ch->rule->per_block && blocks_holds(ch->x->cfg.blocks, k, w)))
            continue;
        if (!ch->codec.is_sync && channel_is_behind(ch, w)) { /* asgd does not wait */
            channel_overtaken(ch);
            continue;
        }
        h.peer = w;
        rc = channel_send(ch, &h, b, encode_s);
        encode_s = 0; /* counted once, not per receiver */
    }
    if (rc == CODEC_GO && !ch->server)
        round_push(ch, k, b, ch->run.round, ch->run.node);
    else
        mesh_buf_put(b);
    return rc;
}

/* Writes this worker's contribution k and sends it, if it takes part in the round. */
static int send_own(struct channel *ch, int k)
{
    double seconds;
    struct mesh_buf *b;

    if (!channel_takes_part(ch, ch->run.round, ch->run.node))
        return CODEC_GO;
    ch->run.block = ch->rule->per_block ? k : -1;
    b = channel_encode(ch, "encode", ch->rule->encode, &seconds);
    ch->run.block = -1;
    return b ? send_contribution(ch, k, b, seconds) : -1;
}

/* asgd between workers: merges all contributions that have arrived, ordered by worker, then by age. */
static int merge_received(struct channel *ch)
{
    struct round *r = &ch->round;

    ch->codec.n_contributions = 0;
    for (int w = 0; w < r->n_contributions; w++)
        ch->codec.n_contributions += r->inbox[w].n;
    for (int w = 0; w < r->n_contributions; w++)
        while (r->inbox[w].n > 0)
            if (merge_one(ch, w) < 0)
                return -1;
    return round_close(ch, 0, -1, 0);
}

static int adopt_reply(struct channel *ch, struct mesh_buf *b)
{
    int rc = channel_decode(ch, PHASE_APPLY, "adopt", ch->rule->adopt, ch->server, b);

    channel_received(ch, ch->server, b->len);
    mesh_buf_put(b);
    if (rc < 0)
        return rc;
    ch->round.stage = ROUND_OPEN;
    channel_begin_local(ch);
    channel_round_done(ch);
    return CODEC_GO;
}

static int await_reply(struct channel *ch)
{
    struct mesh_buf *b = ch->round.early;

    if (!b)
        return CODEC_WAIT;
    ch->round.early = NULL;
    channel_pause(ch, ch->server, false);
    return adopt_reply(ch, b);
}

static void mark_sent(struct channel *ch, enum round_stage next)
{
    ch->round.stage = next;
    ch->round.sent_at = stopwatch_now(ch->x->watch);
}

/* Continues the round after this worker's contributions were sent. */
static int after_own_sent(struct channel *ch)
{
    mark_sent(ch, ch->server ? ROUND_AWAITS_REPLY : ROUND_SENT);
    if (ch->server)
        return await_reply(ch);
    return ch->codec.is_sync ? round_advance(ch) : merge_received(ch);
}

static int encode_empty(struct channel *ch, struct wire_out *out)
{
    (void)ch, (void)out;
    return CODEC_GO;
}

/* After the last round, if workers may need each other until all have closed it: sends an empty contribution
 * and waits for those of all others. */
static int end_barrier(struct channel *ch)
{
    struct mesh_buf *b;
    double seconds;

    if (!round_agrees(ch) || (ch->run.step < ch->run.n_steps && !ch->run.wants_stop))
        return CODEC_GO;
    b = channel_encode(ch, "encode", encode_empty, &seconds);
    if (!b || send_contribution(ch, ch->run.node, b, seconds) < 0)
        return -1;
    mark_sent(ch, ROUND_ENDS);
    return round_advance(ch);
}

/* After the combination has been applied. */
static int end_round(struct channel *ch, int first, int last, uint64_t worker_round)
{
    /* The order to stop arrives first: every worker then ends after the same step. */
    if (is_server(ch) && (stop_vote_send_stop(ch->x) < 0 || send_reply(ch, first, last, worker_round) < 0))
        return -1;
    ch->round.next = 0;
    ch->round.stage = ROUND_OPEN;
    channel_begin_local(ch);
    ch->run.n_merged = 0;
    resume_workers(ch);
    channel_round_done(ch);
    return ch->rule->before_update ? CODEC_GO : end_barrier(ch);
}

/* Ends a round on one of several servers that need sums over all ranges. Called again for each part that
 * arrives. */
static int gather_parts(struct channel *ch)
{
    struct whole *w = &ch->whole;
    int rc = CODEC_GO;
    double norm;

    ch->round.stage = ROUND_GATHERS;
    ch->is_waiting = true;
    if (!w->has_applied) {
        if (whole_needs(ch->x, WHOLE_MEASURES))
            rc = whole_gather(ch, WHOLE_MEASURES);
        if (rc == CODEC_GO)
            rc = channel_apply(ch);
        if (rc != CODEC_GO)
            return rc;
        w->has_applied = true;
    }
    if (w->needs_update) {
        rc = whole_gather(ch, WHOLE_NORM);
        if (rc != CODEC_GO)
            return rc;
        norm = whole_norm(ch);
        if (channel_update(ch, &norm) < 0)
            return -1;
    }
    whole_end_round(ch);
    return end_round(ch, 0, ch->codec.n_workers - 1, ch->run.round);
}

int round_close(struct channel *ch, int first, int last, uint64_t worker_round)
{
    if (ch->whole.parts)
        return gather_parts(ch);
    return channel_apply(ch) < 0 ? -1 : end_round(ch, first, last, worker_round);
}

int round_advance(struct channel *ch)
{
    struct round *r = &ch->round;

    if (r->stage == ROUND_GATHERS)
        return CODEC_WAIT;
    if (round_goes_on(ch))
        return round_advance_without_lost(ch);
    ch->codec.n_contributions = round_size(ch);
    for (; r->next < r->n_contributions; r->next++) {
        if (!channel_takes_part(ch, ch->run.round, r->next))
            continue;
        if (!round_has(ch, r->next))
            return CODEC_WAIT;
        if (merge_one(ch, r->next) < 0)
            return -1;
    }
    return round_close(ch, 0, ch->codec.n_workers - 1, ch->run.round);
}

/* asgd on a server: one contribution is a round. */
static int merge_and_reply(struct channel *ch, int worker)
{
    const struct round_inbox *in = &ch->round.inbox[worker];
    uint64_t worker_round = in->contributions[in->first].round;

    ch->codec.n_contributions = 1;
    return merge_one(ch, worker) < 0 ? round_refuse(ch, worker, worker)
                                     : round_close(ch, worker, worker, worker_round);
}

static int on_block(struct channel *ch, int block)
{
    return ch->rule->per_block ? send_own(ch, block) : CODEC_GO;
}

static int on_grad(struct channel *ch)
{
    if (!ch->rule->before_update)
        return CODEC_GO;
    if (!ch->rule->per_block && send_own(ch, ch->run.node) < 0)
        return -1;
    return after_own_sent(ch);
}

static int on_step(struct channel *ch)
{
    uint64_t every = ch->x->cfg.local_steps;

    if (ch->rule->before_update)
        return end_barrier(ch);
    if (ch->run.step % every != 0 && ch->run.step != ch->run.n_steps)
        return CODEC_GO;
    return send_own(ch, ch->run.node) < 0 ? -1 : after_own_sent(ch);
}

static int on_close(struct channel *ch)
{
    if (ch->rule->before_update || ch->run.step % ch->x->cfg.local_steps == 0)
        return end_barrier(ch);
    return send_own(ch, ch->run.node) < 0 ? -1 : after_own_sent(ch);
}

/* The server needs no contribution of a worker that does not take part: its reply may arrive before the
 * worker's step. */
static bool is_early(const struct channel *ch, const struct mesh_head *h)
{
    return ch->round.draw && ch->round.stage == ROUND_OPEN && h->round == ch->run.round && !ch->round.early;
}

static int on_reply(struct channel *ch, const struct mesh_head *h, struct mesh_buf *b)
{
    if (h->peer == ch->server && is_early(ch, h)) {
        channel_pause(ch, h->peer, true);
        ch->round.early = b;
        return CODEC_WAIT;
    }
    if (h->peer != ch->server || h->round != ch->run.round || ch->round.stage != ROUND_AWAITS_REPLY) {
        mesh_buf_put(b);
        return channel_fail(ch, "node %d sent an unexpected reply", h->peer);
    }
    channel_waited(ch, h->peer);
    return adopt_reply(ch, b);
}

/* May this peer send this contribution? A worker sends its own, a holder that of its block. */
static bool may_contribute(const struct channel *ch, const struct mesh_head *h)
{
    if (h->index >= (uint32_t)ch->round.n_contributions || h->peer < 0 || ch->server)
        return false;
    if (!channel_takes_part(ch, h->round, h->peer))
        return false;
    if (ch->rule->per_block)
        return blocks_holds(ch->x->cfg.blocks, (int)h->index, h->peer);
    return h->index == (uint32_t)h->peer;
}

static int on_contribution_async(struct channel *ch, const struct mesh_head *h, struct mesh_buf *b)
{
    round_push(ch, (int)h->index, b, h->round, h->peer);
    return is_server(ch) ? merge_and_reply(ch, (int)h->index) : CODEC_GO;
}

static int on_contribution(struct channel *ch, const struct mesh_head *h, struct mesh_buf *b)
{
    const struct round *r = &ch->round;
    const struct round_inbox *in = &r->inbox[h->index];
    bool is_redundant = has_redundancy(ch);
    bool is_known = h->round < ch->run.round || (h->round == ch->run.round && (int)h->index < r->next) ||
                    (in->n > 0 && h->round <= in->contributions[(in->first + in->n - 1) % r->depth].round);

    if (is_known && is_redundant) {
        mesh_buf_put(b); /* another holder has sent it already */
        return CODEC_GO;
    }
    if (is_known || in->n == r->depth || (!is_redundant && h->round > ch->run.round + 1)) {
        mesh_buf_put(b);
        channel_fail(ch, "node %d sent its contribution to round %llu in round %llu", h->peer,
                     (unsigned long long)h->round, (unsigned long long)ch->run.round);
        return channel_drop_sender(ch, h->peer);
    }
    if (r->stage != ROUND_OPEN && h->round == ch->run.round)
        channel_waited(ch, h->peer);
    round_push(ch, (int)h->index, b, h->round, h->peer);
    if (is_redundant && is_nearly_full(ch, (int)h->index))
        channel_pause(ch, h->peer, true);
    return is_server(ch) || r->stage != ROUND_OPEN ? round_advance(ch) : CODEC_GO;
}

static int on_message(struct channel *ch, const struct mesh_head *h, struct mesh_buf *b)
{
    if (h->kind == FRAME_REPLY && ch->server)
        return on_reply(ch, h, b);
    if (h->kind == FRAME_PART && h->peer < 0 && ch->whole.parts)
        return whole_on_part(ch, h, b) < 0        ? -1
               : ch->round.stage == ROUND_GATHERS ? gather_parts(ch)
                                                  : CODEC_WAIT;
    if (h->kind == FRAME_LOSS && h->peer >= 0 && round_agrees(ch))
        return round_on_statement(ch, h, b);
    if (round_agrees(ch) && round_is_relayed(ch, h))
        return round_on_relayed(ch, h, b);
    if (h->kind != FRAME_CONTRIBUTION || !may_contribute(ch, h)) {
        mesh_buf_put(b);
        channel_fail(ch, "node %d sent a message that it may not send", h->peer);
        return channel_drop_sender(ch, h->peer);
    }
    return ch->codec.is_sync ? on_contribution(ch, h, b) : on_contribution_async(ch, h, b);
}

static bool cannot_complete(const struct channel *ch)
{
    int missing;

    if (ch->server)
        return ch->round.stage == ROUND_AWAITS_REPLY && channel_has_left(ch, ch->server);
    if (ch->round.stage == ROUND_GATHERS)
        return whole_awaits(ch) && channel_has_left(ch, whole_awaits(ch));
    if (round_goes_on(ch)) { /* a worker that is not lost does not leave before the end */
        missing = round_agrees(ch) && ch->round.agreement.is_settled ? round_missing(ch) : -1;
        return missing >= 0 && channel_has_left(ch, missing) && !ch->round.agreement.is_lost[missing];
    }
    for (int k = ch->round.next; ch->codec.is_sync && k < ch->round.n_contributions; k++)
        if (channel_takes_part(ch, ch->run.round, k) && !round_can_still_come(ch, k))
            return true;
    return false;
}

/* A server's round begins with the first contribution. */
static bool has_begun(const struct channel *ch)
{
    for (int k = 0; k < ch->round.n_contributions; k++)
        if (k < ch->round.next || ch->round.inbox[k].n > 0)
            return true;
    return false;
}

/* The only holder of a block; -1: it has several. */
static int only_holder(const struct channel *ch, int block)
{
    return ch->x->cfg.blocks->redundancy == 1 ? ch->x->cfg.blocks->holders[block] : -1;
}

static int awaited_node(const struct channel *ch)
{
    const struct round *r = &ch->round;

    if (ch->server)
        return ch->server;
    if (r->stage == ROUND_GATHERS)
        return whole_awaits(ch);
    if (!ch->codec.is_sync || (is_server(ch) && !has_begun(ch)))
        return -1;
    if (round_agrees(ch))
        return round_awaits_agreement(ch);
    for (int k = r->next; k < r->n_contributions; k++)
        if (channel_takes_part(ch, ch->run.round, k) && !round_has(ch, k))
            return ch->rule->per_block ? only_holder(ch, k) : k;
    return -1;
}

static void describe_wait(const struct channel *ch, char *out, size_t size)
{
    unsigned long long round = ch->run.round + 1;

    if (ch->server)
        snprintf(out, size, "the reply of node %d in round %llu", ch->server, round);
    else if (ch->round.stage == ROUND_GATHERS)
        snprintf(out, size, "the part of node %d, a server, in round %llu", whole_awaits(ch), round);
    else if (round_agrees(ch))
        round_waits_for_agreement(ch, out, size);
    else if (ch->rule->per_block)
        snprintf(out, size, "the contribution about block %d in round %llu", ch->round.next, round);
    else
        snprintf(out, size, "the contribution of node %d in round %llu", ch->round.next, round);
}

const struct channel_handlers round_handlers = {.on_block = on_block,
                                                .on_grad = on_grad,
                                                .on_step = on_step,
                                                .on_close = on_close,
                                                .on_message = on_message,
                                                .on_loss = round_on_loss,
                                                .on_leave = round_on_leave,
                                                .cannot_complete = cannot_complete,
                                                .awaits = awaited_node,
                                                .waits_for = describe_wait,
                                                .is_quiescent = true};
