/* round_loss -- synchronous rounds that continue without lost workers. A server merges the contributions that
 * it has received. Workers, however, must all merge the same contributions: they first agree on these
 * (agreement.h), and they end together, so that no worker leaves while another one needs it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runner/exchange/exchange_private.h"

enum { MODEL_VECTORS = 3 }; /* vectors before those of zeros() */

static struct codec_vector vector_of(const struct channel *ch, size_t i)
{
    const struct codec *c = &ch->codec;
    float *const vectors[MODEL_VECTORS] = {c->params, c->grads, c->global == c->params ? NULL : c->global};

    if (i >= MODEL_VECTORS)
        return ch->zeros[i - MODEL_VECTORS];
    return vectors[i] ? (struct codec_vector){.v = vectors[i], .n = ch->n_params}
                      : (struct codec_vector){.v = c->params, .n = 0};
}

static size_t bytes_of_state(const struct channel *ch)
{
    return ch->x->cfg.plugin->state_size;
}

void round_undo_clear(struct round_undo *u)
{
    free(u->vectors);
    free(u->state);
    *u = (struct round_undo){0};
}

static int make_undo_room(struct round_undo *u, struct channel *ch)
{
    size_t bytes = 1; /* malloc(0) may be NULL */

    /* All vectors are in memory, so the sum does not overflow. */
    for (size_t i = 0; i < MODEL_VECTORS + ch->n_zeros; i++) {
        struct codec_vector v = vector_of(ch, i);

        bytes += vector_bytes(&v);
    }
    u->vectors = malloc(bytes);
    u->state = malloc(bytes_of_state(ch) + 1);
    if (u->vectors && u->state)
        return 0;
    round_undo_clear(u);
    return err_set(ch->x->e, ERR_NOMEM, "no memory to keep %zu bytes of the codec", bytes);
}

static int keep_codec(struct round_undo *u, struct channel *ch)
{
    char *to;

    if (!u->vectors && make_undo_room(u, ch) < 0)
        return ch->x->e->code;
    to = u->vectors;
    for (size_t i = 0; i < MODEL_VECTORS + ch->n_zeros; i++) {
        struct codec_vector v = vector_of(ch, i);

        memcpy(to, v.v, vector_bytes(&v));
        to += vector_bytes(&v);
    }
    memcpy(u->state, ch->codec.state, bytes_of_state(ch));
    u->rng = ch->rng;
    return 0;
}

static void restore_codec(const struct round_undo *u, struct channel *ch)
{
    const char *from = u->vectors;

    for (size_t i = 0; i < MODEL_VECTORS + ch->n_zeros; i++) {
        struct codec_vector v = vector_of(ch, i);

        memcpy(v.v, from, vector_bytes(&v));
        from += vector_bytes(&v);
    }
    memcpy(ch->codec.state, u->state, bytes_of_state(ch));
    ch->rng = u->rng;
}

/* Is the round incomplete without this contribution, which is missing? */
static bool is_awaited(const struct channel *ch, int k)
{
    if (round_has(ch, k) || !channel_takes_part(ch, ch->run.round, k))
        return false;
    return round_agrees(ch) ? agreement_counts(&ch->round.agreement, k, ch->run.round)
                            : round_can_still_come(ch, k);
}

int round_missing(const struct channel *ch)
{
    for (int k = 0; k < ch->round.n_contributions; k++)
        if (is_awaited(ch, k))
            return k;
    return -1;
}

/* The number of contributions that the round will have; 0: not known yet. A rule may divide by that number in
 * its first merge, so no contribution is merged before. */
static int count_contributions(const struct channel *ch)
{
    int n = 0;

    if (round_agrees(ch) ? !ch->round.agreement.is_settled : round_missing(ch) >= 0)
        return 0;
    for (int k = 0; k < ch->round.n_contributions; k++)
        n += round_has(ch, k) || is_awaited(ch, k);
    return n;
}

/* Before the first merge: copies the vectors that merges change. Usually the node waits for contributions
 * anyway. */
static int begin_merging(struct channel *ch)
{
    struct round *r = &ch->round;
    bool ends = r->stage == ROUND_ENDS; /* empty contributions change nothing */

    if (!r->can_undo && !ends && keep_codec(&r->undo, ch) < 0)
        return -1;
    r->can_undo = !ends;
    return CODEC_GO;
}

/* Undoes the merges so far: the round will have fewer contributions than they assumed. */
static void undo_merges(struct channel *ch)
{
    if (ch->run.n_merged > 0)
        restore_codec(&ch->round.undo, ch);
    ch->run.n_merged = 0;
    ch->round.next = 0;
}

int round_refuse(struct channel *ch, int k, int from)
{
    ch->run.n_merged = 0;
    round_discard(ch, k);
    return channel_drop_sender(ch, from);
}

/* On a server the round advances when the mesh reports the loss, unless it has reported it already
 * (had_left). */
static int merge_again_without(struct channel *ch, int k)
{
    int from = round_sender(ch, k);
    bool had_left = !round_agrees(ch) && channel_has_left(ch, from);
    int rc;

    undo_merges(ch);
    rc = round_refuse(ch, k, from);
    return rc == CODEC_GO && had_left ? round_advance_without_lost(ch) : rc;
}

/* Closes a complete round. Its contributions are kept if a peer may need them; no peer needs those of the
 * previous round any more. */
static int close_complete(struct channel *ch)
{
    struct round *r = &ch->round;

    for (int k = 0; k < r->n_contributions; k++) {
        if (r->kept) {
            mesh_buf_put(r->kept[k]);
            r->kept[k] = NULL;
        }
        if (round_has(ch, k))
            round_take_out(ch, k);
    }
    r->can_undo = false;
    return round_close(ch, 0, ch->codec.n_workers - 1, ch->run.round);
}

int round_advance_without_lost(struct channel *ch)
{
    struct round *r = &ch->round;
    bool ends = r->stage == ROUND_ENDS;

    ch->codec.n_contributions = count_contributions(ch);
    if (ch->codec.n_contributions == 0)
        return CODEC_WAIT;
    if (begin_merging(ch) < 0)
        return -1;
    for (; r->next < r->n_contributions; r->next++) {
        if (is_awaited(ch, r->next))
            return CODEC_WAIT;
        if (!ends && round_has(ch, r->next) && round_merge(ch, r->next) < 0)
            return merge_again_without(ch, r->next);
    }
    if (!ends)
        return close_complete(ch);
    r->stage = ROUND_OPEN;
    r->next = 0;
    return CODEC_GO;
}

static int send_message(struct channel *ch, const struct mesh_head *h, struct mesh_buf *b)
{
    compressing_begin_writing(&ch->compressing); /* it compresses nothing: resets saved_out */
    return channel_send(ch, h, b, 0);
}

/* Sends a new statement to all linked workers, after further losses. */
static int restate(struct channel *ch)
{
    struct round *r = &ch->round;
    struct agreement *a = &r->agreement;
    struct mesh_head h = {.kind = FRAME_LOSS, .channel = ch->id, .round = ch->run.round};
    struct mesh_buf *b = mesh_buf_take(ch->x->mesh);
    int rc = CODEC_GO;

    if (!b)
        return err_set(ch->x->e, ERR_NOMEM, "no memory for a statement on lost workers");
    undo_merges(ch);
    for (int w = 0; w < a->n; w++) {
        a->counted[w] = r->kept[w];
        /* A worker that has closed the round with it relays it; otherwise it does not count. */
        if (a->is_lost[w])
            round_discard(ch, w);
    }
    agreement_restate(a, ch->run.round);
    agreement_write(a, b->bytes);
    b->len = agreement_bytes(a);
    for (h.peer = 0; rc == CODEC_GO && h.peer < a->n; h.peer++)
        if (h.peer != ch->run.node && !channel_has_left(ch, h.peer))
            rc = send_message(ch, &h, b);
    mesh_buf_put(b);
    return rc;
}

/* If this worker relays: sends the lost workers' contributions to the workers that are one round behind. */
static int relay_contributions(struct channel *ch)
{
    const struct agreement *a = &ch->round.agreement;
    struct mesh_head h = {.kind = FRAME_CONTRIBUTION, .channel = ch->id, .round = ch->run.round - 1};

    if (agreement_relayer(a, ch->x->peer_stats.has_left) != ch->run.node)
        return CODEC_GO;
    for (h.peer = 0; h.peer < a->n; h.peer++)
        for (int w = 0; agreement_is_behind(a, h.peer) && !channel_has_left(ch, h.peer) && w < a->n; w++) {
            h.index = (uint32_t)w;
            if (a->is_lost[w] && ch->round.kept[w] && send_message(ch, &h, ch->round.kept[w]) < 0)
                return -1;
        }
    return CODEC_GO;
}

/* Call after any event that may settle the agreement or complete the round. */
static int continue_round(struct channel *ch)
{
    struct round *r = &ch->round;

    if (agreement_settles(&r->agreement, ch->x->peer_stats.has_left) && relay_contributions(ch) < 0)
        return -1;
    return r->stage != ROUND_OPEN ? round_advance(ch) : CODEC_GO;
}

int round_on_leave(struct channel *ch, int node)
{
    (void)node;
    return round_agrees(ch) ? continue_round(ch) : CODEC_GO;
}

int round_on_loss(struct channel *ch, int node)
{
    if (!round_agrees(ch))
        return round_goes_on(ch) ? round_advance(ch) : CODEC_GO;
    if (ch->round.agreement.is_lost[node]) /* a statement of another worker has named it */
        return CODEC_GO;
    agreement_lose(&ch->round.agreement, node);
    return restate(ch) < 0 ? -1 : continue_round(ch);
}

/* The statement is sent before the worker counts as having left, so that it receives the statement, too, and
 * ends. */
int round_drop_sender(struct channel *ch, int from)
{
    char why[MESH_REASON_MAX];

    snprintf(why, sizeof why, "%.*s", MESH_REASON_MAX - 1, ch->x->e->text);
    *ch->x->e = (struct err){0};
    agreement_lose(&ch->round.agreement, from);
    if (restate(ch) < 0 || exchange_lose(ch->x, from, why) < 0)
        return -1;
    return continue_round(ch);
}

/* If one worker has lost a worker, all workers count it as lost. */
static int adopt_losses(struct channel *ch, int from, const struct agreement_statement *s)
{
    struct agreement *a = &ch->round.agreement;
    int n_lost = a->n_lost;
    char why[64];

    if (agreement_names_lost(s, a->self))
        return err_set(ch->x->e, ERR_LOST,
                       "node %d continues without this node, which it or another node has lost", from);
    snprintf(why, sizeof why, "node %d reported it", from);
    for (int w = 0; w < a->n; w++)
        if (agreement_names_lost(s, w))
            agreement_lose(a, w);
    if (a->n_lost == n_lost)
        return CODEC_GO;
    if (restate(ch) < 0)
        return -1;
    for (int w = 0; w < a->n; w++)
        if (a->is_lost[w] && exchange_lose(ch->x, w, why) < 0)
            return -1;
    return CODEC_GO;
}

int round_on_statement(struct channel *ch, const struct mesh_head *h, struct mesh_buf *b)
{
    struct agreement *a = &ch->round.agreement;
    struct agreement_statement s;
    int rc = CODEC_GO;

    if (!agreement_read(&s, a, h->peer, ch->run.round, h->round, b->bytes, b->len)) {
        mesh_buf_put(b);
        channel_fail(ch, "node %d sent a malformed statement on lost workers", h->peer);
        return channel_drop_sender(ch, h->peer);
    }
    rc = adopt_losses(ch, h->peer, &s);
    if (rc == CODEC_GO)
        agreement_take(a, h->peer, &s);
    channel_received(ch, h->peer, b->len);
    mesh_buf_put(b);
    return rc < 0 ? rc : continue_round(ch);
}

bool round_is_relayed(const struct channel *ch, const struct mesh_head *h)
{
    const struct agreement *a = &ch->round.agreement;

    return h->kind == FRAME_CONTRIBUTION && h->peer >= 0 && h->index < (uint32_t)a->n &&
           h->index != (uint32_t)h->peer && a->is_lost[h->index];
}

/* If this worker knows of more losses than the sender, it is not known whether the contribution counts: it is
 * dropped, and relayed again if it does. */
int round_on_relayed(struct channel *ch, const struct mesh_head *h, struct mesh_buf *b)
{
    const struct round *r = &ch->round;
    const struct agreement *a = &r->agreement;
    int k = (int)h->index;

    if (h->round != ch->run.round || r->inbox[k].n > 0 || !agreement_counts(a, k, h->round)) {
        mesh_buf_put(b);
        return CODEC_GO;
    }
    round_push(ch, k, b, h->round, h->peer);
    return continue_round(ch);
}

int round_awaits_agreement(const struct channel *ch)
{
    const struct agreement *a = &ch->round.agreement;

    return a->is_settled ? round_missing(ch) : agreement_awaits(a, ch->x->peer_stats.has_left);
}

void round_waits_for_agreement(const struct channel *ch, char *out, size_t size)
{
    const struct agreement *a = &ch->round.agreement;
    int node = round_awaits_agreement(ch);

    if (!a->is_settled)
        snprintf(out, size, "the statement of node %d on %d lost workers", node, a->n_lost);
    else if (ch->round.stage == ROUND_ENDS)
        snprintf(out, size, "the final message of node %d", node);
    else
        snprintf(out, size, "the contribution of node %d in round %llu", node,
                 (unsigned long long)ch->run.round + 1);
}
