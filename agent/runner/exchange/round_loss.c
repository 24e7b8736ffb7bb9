/* Synchronous rounds that go on without lost workers. A server merges what there is; workers, who have to
 * merge the same, first agree on what that is (agreement.h), and end together, so that nobody is gone whom
 * another needs. */
#include <stdio.h>
#include <string.h>

#include "agent/runner/exchange/channel.h"

bool round_agrees(const struct channel *ch)
{
    return ch->round.agreement.n > 0;
}

bool round_goes_on(const struct channel *ch)
{
    return round_agrees(ch) || (ch->codec.node < 0 && ch->codec.is_sync && channel_config(ch)->goes_on);
}

/* Is the round not whole without this word? */
static bool is_awaited(const struct channel *ch, int k)
{
    if (round_has(ch, k))
        return false;
    return round_agrees(ch) ? agreement_counts(&ch->round.agreement, k, ch->codec.round)
                            : round_can_still_come(ch, k);
}

int round_missing(const struct channel *ch)
{
    for (int k = 0; k < ch->round.n_contributions; k++)
        if (is_awaited(ch, k))
            return k;
    return -1;
}

/* How many words the round will have, or 0 while it is open whose. A rule may divide by that number from its
 * first word on, so none is merged before. */
static int count_contributions(const struct channel *ch)
{
    int n = 0;

    if (round_agrees(ch) ? !ch->round.agreement.is_settled : round_missing(ch) >= 0)
        return 0;
    for (int k = 0; k < ch->round.n_contributions; k++)
        n += round_has(ch, k) || is_awaited(ch, k);
    return n;
}

/* Before the first word is merged, while others are waited for: there is time to copy what it changes. */
static int begin_merging(struct channel *ch)
{
    struct round *r = &ch->round;
    bool ends = r->stage == ROUND_ENDS; /* empty words change nothing */

    if (!r->can_undo && !ends && undo_keep(&r->undo, ch) < 0)
        return -1;
    r->can_undo = !ends;
    return CODEC_GO;
}

/* Words have been merged as some of so many, and there will not be as many. */
static void take_back(struct channel *ch)
{
    if (ch->codec.n_merged > 0)
        undo_restore(&ch->round.undo, ch);
    ch->codec.n_merged = 0;
    ch->round.next = 0;
}

/* A word in its inbox is none: the round does without its sender. */
int round_refuse(struct channel *ch, int k, int from)
{
    ch->codec.n_merged = 0;
    round_drop(ch, k);
    return channel_blame(ch, from);
}

/* A server goes on when the loss is told, which may have been. */
static int merge_again_without(struct channel *ch, int k)
{
    int from = round_sender(ch, k);
    bool had_left = !round_agrees(ch) && channel_has_left(ch, from);
    int rc;

    take_back(ch);
    rc = round_refuse(ch, k, from);
    return rc == CODEC_GO && had_left ? round_advance_without_lost(ch) : rc;
}

/* Its words are kept where somebody may need them; those of the round before nobody needs any more. */
static int close_whole(struct channel *ch)
{
    struct round *r = &ch->round;

    for (int k = 0; k < r->n_contributions; k++) {
        if (r->kept) {
            channel_drop_buf(ch, r->kept[k]);
            r->kept[k] = NULL;
        }
        if (round_has(ch, k))
            round_finish(ch, k);
    }
    r->can_undo = false;
    return round_close(ch, 0, ch->codec.n_workers - 1, ch->codec.round);
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
        return close_whole(ch);
    r->stage = ROUND_OPEN;
    r->next = 0;
    return CODEC_GO;
}

static int send(struct channel *ch, const struct mesh_head *h, struct mesh_buf *b)
{
    compressing_begin_writing(ch); /* the bytes are as long as they are */
    return channel_send(ch, h, b, 0);
}

/* Says to everybody who is linked what this worker knows, now that it knows of more losses. */
static int restate(struct channel *ch)
{
    struct round *r = &ch->round;
    struct agreement *a = &r->agreement;
    struct mesh_head h = {.kind = FRAME_LOSS, .channel = ch->id, .round = ch->codec.round};
    struct mesh_buf *b = mesh_buf_take(ch->x->mesh);
    int rc = CODEC_GO;

    if (!b)
        return err_set(channel_err(ch), ERR_NOMEM, "no memory for a statement on lost workers");
    take_back(ch);
    for (int w = 0; w < a->n; w++) {
        a->counted[w] = r->kept[w];
        if (a->is_lost[w]) /* who closed the round with it hands it on; else it does not count */
            round_drop(ch, w);
    }
    agreement_restate(a, ch->codec.round);
    agreement_write(a, b->bytes);
    b->len = agreement_bytes(a);
    for (h.peer = 0; rc == CODEC_GO && h.peer < a->n; h.peer++)
        if (h.peer != ch->codec.node && !channel_has_left(ch, h.peer))
            rc = send(ch, &h, b);
    channel_drop_buf(ch, b);
    return rc;
}

/* Those who are a round behind get what they lack of it from one of those who are not. */
static int hand_on(struct channel *ch)
{
    const struct agreement *a = &ch->round.agreement;
    struct mesh_head h = {.kind = FRAME_CONTRIBUTION, .channel = ch->id, .round = ch->codec.round - 1};

    if (agreement_relayer(a, ch->x->peer_stats.has_left) != ch->codec.node)
        return CODEC_GO;
    for (h.peer = 0; h.peer < a->n; h.peer++)
        for (int w = 0; agreement_is_behind(a, h.peer) && !channel_has_left(ch, h.peer) && w < a->n; w++) {
            h.index = (uint32_t)w;
            if (a->is_lost[w] && ch->round.kept[w] && send(ch, &h, ch->round.kept[w]) < 0)
                return -1;
        }
    return CODEC_GO;
}

/* Something that an agreement may have waited for has happened. */
static int go_on(struct channel *ch)
{
    struct round *r = &ch->round;

    if (agreement_settles(&r->agreement, ch->x->peer_stats.has_left) && hand_on(ch) < 0)
        return -1;
    return r->stage != ROUND_OPEN ? round_advance(ch) : CODEC_GO;
}

int round_on_leave(struct channel *ch)
{
    return round_agrees(ch) ? go_on(ch) : CODEC_GO;
}

int round_on_loss(struct channel *ch, int node)
{
    if (!round_agrees(ch))
        return round_goes_on(ch) ? round_advance(ch) : CODEC_GO;
    if (ch->round.agreement.is_lost[node]) /* another one has said so before */
        return CODEC_GO;
    agreement_lose(&ch->round.agreement, node);
    return restate(ch) < 0 ? -1 : go_on(ch);
}

/* It hears of its loss before it counts as gone, so that it ends as well. */
int round_accuse(struct channel *ch, int from)
{
    char why[MESH_WHY];

    snprintf(why, sizeof why, "%.*s", MESH_WHY - 1, channel_err(ch)->text);
    *channel_err(ch) = (struct err){0};
    agreement_lose(&ch->round.agreement, from);
    if (restate(ch) < 0 || exchange_lose(ch->x, from, why) < 0)
        return -1;
    return go_on(ch);
}

/* Others are lost to somebody: then they are to everybody. */
static int believe(struct channel *ch, int from, const struct agreement_statement *s)
{
    struct agreement *a = &ch->round.agreement;
    int n_lost = a->n_lost;
    char why[64];

    if (agreement_says_lost(s, a->self))
        return err_set(channel_err(ch), ERR_LOST,
                       "node %d goes on without this node, which was lost to it or to another one", from);
    snprintf(why, sizeof why, "node %d says so", from);
    for (int w = 0; w < a->n; w++)
        if (agreement_says_lost(s, w))
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

    if (!agreement_read(&s, a, h->peer, ch->codec.round, h->round, b->bytes, b->len)) {
        channel_drop_buf(ch, b);
        channel_fail(ch, "node %d sent a malformed statement on lost workers", h->peer);
        return channel_blame(ch, h->peer);
    }
    rc = believe(ch, h->peer, &s);
    if (rc == CODEC_GO)
        agreement_take(a, h->peer, &s);
    channel_received(ch, h->peer, b->len);
    channel_drop_buf(ch, b);
    return rc < 0 ? rc : go_on(ch);
}

bool round_is_relayed(const struct channel *ch, const struct mesh_head *h)
{
    const struct agreement *a = &ch->round.agreement;

    return h->kind == FRAME_CONTRIBUTION && h->peer >= 0 && h->index < (uint32_t)a->n &&
           h->index != (uint32_t)h->peer && a->is_lost[h->index];
}

/* What is not known to count, as there are more losses here than its sender knew of, is handed on again if it
 * does. */
int round_on_relayed(struct channel *ch, const struct mesh_head *h, struct mesh_buf *b)
{
    const struct round *r = &ch->round;
    const struct agreement *a = &r->agreement;
    int k = (int)h->index;

    if (h->round != ch->codec.round || r->inbox[k].n > 0 || !agreement_counts(a, k, h->round)) {
        channel_drop_buf(ch, b);
        return CODEC_GO;
    }
    round_push(ch, k, b, h->round, h->peer);
    return go_on(ch);
}

void round_waits_for_agreement(const struct channel *ch, char *out, size_t size)
{
    const struct agreement *a = &ch->round.agreement;
    int node = a->is_settled ? round_missing(ch) : agreement_awaits(a, ch->x->peer_stats.has_left);

    if (!a->is_settled)
        snprintf(out, size, "what node %d says of %d lost ones", node, a->n_lost);
    else if (ch->round.stage == ROUND_ENDS)
        snprintf(out, size, "the end of node %d", node);
    else
        snprintf(out, size, "the word of node %d in round %llu", node,
                 (unsigned long long)ch->codec.round + 1);
}
