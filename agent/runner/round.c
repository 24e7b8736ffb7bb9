/* round -- how a round rule (struct codec_round) runs.
 *
 *   between workers, ssgd   encode, send to the others, merge in order as the words come, apply
 *   between workers, asgd   encode, send to those who take what they are sent, merge what has come, apply:
 *                           nobody is waited for
 *   worker of a server      encode, send to the server, wait for its reply, adopt it
 *   server, ssgd            merge every worker's word in order, apply, reply to all
 *   server, asgd            merge one word as it comes, apply, reply to its sender
 *
 * In ssgd a node can be one round ahead of another, never two: its next round needs my word of this one.
 * Redundant blocks loosen that: those who need nothing from a slow node run ahead of it until its inboxes are
 * nearly full; it then takes nothing more from them, and they wait. */
#include <stdio.h>
#include <stdlib.h>

#include "agent/runner/channel.h"

static bool is_server(const struct channel *ch)
{
    return ch->codec.node < 0;
}

int round_open(struct channel *ch)
{
    struct round *r = &ch->round;

    if (ch->server) /* it hears replies, not words */
        return CODEC_GO;
    r->n_words = ch->rule->per_block ? ch->codec.n_blocks : ch->codec.n_workers;
    r->depth = channel_config(ch)->blocks->redundancy + 3;
    r->inbox = calloc((size_t)r->n_words, sizeof *r->inbox);
    r->letters = calloc((size_t)r->n_words * (size_t)r->depth, sizeof *r->letters);
    if (!r->inbox || !r->letters)
        return err_set(channel_err(ch), ERR_NOMEM, "no memory for %d words", r->n_words);
    for (int w = 0; w < r->n_words; w++)
        r->inbox[w].letters = r->letters + w * r->depth;
    return CODEC_GO;
}

static struct letter inbox_pop(const struct channel *ch, struct inbox *in)
{
    struct letter l = in->letters[in->first];

    in->first = (in->first + 1) % ch->round.depth;
    in->n--;
    return l;
}

void round_clear(struct channel *ch)
{
    for (int w = 0; ch->round.inbox && ch->round.letters && w < ch->round.n_words; w++)
        while (ch->round.inbox[w].n > 0)
            channel_drop_buf(ch, inbox_pop(ch, &ch->round.inbox[w]).buf);
    free(ch->round.inbox);
    free(ch->round.letters);
    undo_clear(&ch->round.undo);
    ch->round = (struct round){0};
}

static void inbox_push(struct channel *ch, int word, struct mesh_buf *b, uint64_t round, int from)
{
    struct inbox *in = &ch->round.inbox[word];

    if (in->n == ch->round.depth) { /* only in asgd: the oldest word gives way */
        channel_drop_buf(ch, inbox_pop(ch, in).buf);
        channel_overtaken(ch);
    }
    in->letters[(in->first + in->n++) % ch->round.depth] = (struct letter){
        .buf = b, .round = round, .from = from};
}

/* Room is kept for one more word of each holder: each is paused only by a word of its own. */
static bool is_nearly_full(const struct channel *ch, int word)
{
    return ch->round.inbox[word].n >= ch->round.depth - channel_config(ch)->blocks->redundancy;
}

static bool is_ahead(const struct channel *ch, int worker)
{
    for (int word = 0; word < ch->round.n_words; word++)
        if (is_nearly_full(ch, word) && blocks_holds(channel_config(ch)->blocks, word, worker))
            return true;
    return false;
}

static bool has_redundant_words(const struct channel *ch)
{
    return ch->rule->per_block && channel_config(ch)->blocks->redundancy > 1;
}

static void resume_those_no_longer_ahead(struct channel *ch)
{
    for (int w = 0; has_redundant_words(ch) && w < ch->codec.n_workers; w++)
        if (w != ch->codec.node && !is_ahead(ch, w))
            channel_pause(ch, w, false);
}

static bool has_word(const struct channel *ch, int word)
{
    const struct inbox *in = &ch->round.inbox[word];

    return in->n > 0 && in->letters[in->first].round == ch->codec.round;
}

/* It stays in its inbox. */
static int merge_first(struct channel *ch, int word)
{
    const struct inbox *in = &ch->round.inbox[word];
    struct letter *l = &in->letters[in->first];
    int rc;

    ch->codec.block = ch->rule->per_block ? word : -1;
    rc = channel_decode(ch, PHASE_DECODE, ch->rule->merge, word, l->buf);
    ch->codec.block = -1;
    l->saved = ch->compressing.saved_in;
    ch->codec.n_merged++;
    return rc;
}

static void finish_first(struct channel *ch, int word)
{
    struct letter l = inbox_pop(ch, &ch->round.inbox[word]);

    ch->compressing.saved_in = l.saved;
    if (l.from != ch->codec.node)
        channel_received(ch, l.from, l.buf->len);
    channel_drop_buf(ch, l.buf);
}

static int merge_one(struct channel *ch, int word)
{
    int rc = merge_first(ch, word);

    finish_first(ch, word);
    return rc;
}

/* A server's reply to workers first .. last, who are in `round`. */
static int answer(struct channel *ch, int first, int last, uint64_t round)
{
    struct mesh_head h = {.kind = FRAME_REPLY, .channel = ch->id, .round = round};
    double seconds;
    struct mesh_buf *b = channel_encode(ch, ch->rule->reply, &seconds);
    int rc = b ? CODEC_GO : -1;

    for (h.peer = first; rc == CODEC_GO && h.peer <= last; h.peer++, seconds = 0)
        if (!channel_has_left(ch, h.peer))
            rc = channel_send(ch, &h, b, seconds);
    channel_drop_buf(ch, b);
    return rc;
}

/* All words of the round are merged. A server answers workers first .. last, who are in `their_round`. */
static int close_round(struct channel *ch, int first, int last, uint64_t their_round)
{
    if (channel_apply(ch) < 0)
        return -1;
    if (is_server(ch) && answer(ch, first, last, their_round) < 0)
        return -1;
    ch->round.next = 0;
    ch->round.has_said = false;
    ch->codec.samples = 0;
    ch->codec.n_merged = 0;
    resume_those_no_longer_ahead(ch);
    channel_round_done(ch);
    return CODEC_GO;
}

static bool can_still_come(const struct channel *ch, int word)
{
    if (ch->round.inbox[word].n > 0)
        return true;
    if (!ch->rule->per_block)
        return !channel_has_left(ch, word);
    for (int w = 0; w < ch->codec.n_workers; w++)
        if (blocks_holds(channel_config(ch)->blocks, word, w) && !channel_has_left(ch, w))
            return true;
    return false;
}

/* A server that goes on without lost workers: how many words the round will have, or 0 while it is open whose. A
 * rule may divide by that number from its first word on, so none is merged before. */
static int count_words(const struct channel *ch)
{
    int n = 0;

    for (int word = 0; word < ch->round.n_words; word++) {
        if (!has_word(ch, word) && can_still_come(ch, word))
            return 0;
        n += has_word(ch, word);
    }
    return n;
}

/* The first word of this worker on a server is none: the round is as it was before, and does without its
 * sender. */
static int refuse_word(struct channel *ch, int worker)
{
    struct inbox *in = &ch->round.inbox[worker];

    ch->codec.n_merged = 0;
    while (in->n > 0)
        channel_drop_buf(ch, inbox_pop(ch, in).buf);
    return channel_blame(ch, worker);
}

/* A server that goes on without lost workers: merges all words at once, when it is settled whose there are.
 * Should one be malformed, those before it have been merged as if it were there: all that is taken back,
 * until its sender's loss is told -- which may have been. */
static int advance_without_lost(struct channel *ch)
{
    struct round *r = &ch->round;

    ch->codec.n_words = count_words(ch);
    if (ch->codec.n_words == 0)
        return CODEC_WAIT;
    if (undo_keep(&r->undo, ch) < 0)
        return -1;
    for (int word = 0; word < r->n_words; word++)
        if (has_word(ch, word) && merge_first(ch, word) < 0) {
            bool was_told = channel_has_left(ch, word);

            undo_restore(&r->undo, ch);
            if (refuse_word(ch, word) < 0)
                return -1;
            return was_told ? advance_without_lost(ch) : CODEC_GO;
        }
    for (int word = 0; word < r->n_words; word++)
        if (has_word(ch, word))
            finish_first(ch, word);
    return close_round(ch, 0, ch->codec.n_workers - 1, ch->codec.round);
}

/* ssgd: merges as far as the words reach, in order. */
static int advance(struct channel *ch)
{
    struct round *r = &ch->round;

    if (is_server(ch) && channel_config(ch)->goes_on)
        return advance_without_lost(ch);
    ch->codec.n_words = r->n_words;
    for (; r->next < r->n_words; r->next++) {
        if (!has_word(ch, r->next))
            return CODEC_WAIT;
        if (merge_one(ch, r->next) < 0)
            return -1;
    }
    return close_round(ch, 0, ch->codec.n_workers - 1, ch->codec.round);
}

int round_on_loss(struct channel *ch)
{
    return is_server(ch) && ch->codec.is_sync ? advance(ch) : CODEC_GO;
}

/* asgd between workers: everything that has come, by worker, then by age. */
static int merge_what_came(struct channel *ch)
{
    struct round *r = &ch->round;

    ch->codec.n_words = 0;
    for (int w = 0; w < r->n_words; w++)
        ch->codec.n_words += r->inbox[w].n;
    for (int w = 0; w < r->n_words; w++)
        while (r->inbox[w].n > 0)
            if (merge_one(ch, w) < 0)
                return -1;
    return close_round(ch, 0, -1, 0);
}

/* asgd on a server: one word is a round. */
static int merge_and_answer(struct channel *ch, int worker)
{
    const struct inbox *in = &ch->round.inbox[worker];
    uint64_t their_round = in->letters[in->first].round;

    ch->codec.n_words = 1;
    return merge_one(ch, worker) < 0 ? refuse_word(ch, worker) : close_round(ch, worker, worker, their_round);
}

/* Encodes one word, keeps it, and sends it to those who lack it. */
static int say(struct channel *ch, int word)
{
    struct mesh_head h = {.kind = FRAME_WORD,
                          .peer = ch->server,
                          .channel = ch->id,
                          .word = (uint32_t)word,
                          .round = ch->codec.round};
    double seconds;
    struct mesh_buf *b;
    int rc;

    ch->codec.block = ch->rule->per_block ? word : -1;
    b = channel_encode(ch, ch->rule->encode, &seconds);
    ch->codec.block = -1;
    rc = b ? CODEC_GO : -1;
    if (rc == CODEC_GO && ch->server)
        rc = channel_send(ch, &h, b, seconds);
    for (int w = 0; rc == CODEC_GO && !ch->server && w < ch->codec.n_workers; w++) {
        if (w == ch->codec.node || channel_has_left(ch, w) ||
            (ch->rule->per_block && blocks_holds(channel_config(ch)->blocks, word, w)))
            continue;
        if (!ch->codec.is_sync && channel_is_behind(ch, w)) { /* nobody is waited for */
            channel_overtaken(ch);
            continue;
        }
        h.peer = w;
        rc = channel_send(ch, &h, b, seconds);
        seconds = 0; /* one encoding, however many receivers */
    }
    if (rc == CODEC_GO && !ch->server)
        inbox_push(ch, word, b, ch->codec.round, ch->codec.node);
    else
        channel_drop_buf(ch, b);
    return rc;
}

static int said(struct channel *ch)
{
    ch->round.has_said = true;
    ch->round.said_at = stopwatch_now(channel_watch(ch));
    if (ch->server) {
        ch->round.awaits_reply = true;
        return CODEC_WAIT;
    }
    return ch->codec.is_sync ? advance(ch) : merge_what_came(ch);
}

int round_on_block(struct channel *ch, int block)
{
    return ch->rule->per_block ? say(ch, block) : CODEC_GO;
}

int round_on_grad(struct channel *ch)
{
    if (!ch->rule->before_update)
        return CODEC_GO;
    if (!ch->rule->per_block && say(ch, ch->codec.node) < 0)
        return -1;
    return said(ch);
}

int round_on_step(struct channel *ch)
{
    uint64_t every = channel_config(ch)->local_steps;

    if (ch->rule->before_update || (ch->codec.step % every != 0 && ch->codec.step != ch->codec.n_steps))
        return CODEC_GO;
    return say(ch, ch->codec.node) < 0 ? -1 : said(ch);
}

static int adopt(struct codec *c, int from, struct wire_in *in)
{
    (void)from;
    return ((struct channel *)c)->rule->adopt(c, in);
}

static int on_reply(struct channel *ch, const struct mesh_head *h, struct mesh_buf *b)
{
    int rc;

    if (h->peer != ch->server || h->round != ch->codec.round || !ch->round.awaits_reply) {
        channel_drop_buf(ch, b);
        return channel_fail(ch, "node %d sent a reply that nobody waits for", h->peer);
    }
    channel_waited(ch, h->peer);
    rc = channel_decode(ch, PHASE_APPLY, adopt, h->peer, b);
    channel_received(ch, h->peer, b->len);
    channel_drop_buf(ch, b);
    if (rc < 0)
        return rc;
    ch->round.awaits_reply = false;
    ch->round.has_said = false;
    ch->codec.samples = 0;
    channel_round_done(ch);
    return CODEC_GO;
}

/* May this peer say this word? A worker speaks for itself, a holder for its block. */
static bool may_say(const struct channel *ch, const struct mesh_head *h)
{
    if (h->word >= (uint32_t)ch->round.n_words || h->peer < 0 || ch->server)
        return false;
    if (ch->rule->per_block)
        return blocks_holds(channel_config(ch)->blocks, (int)h->word, h->peer);
    return h->word == (uint32_t)h->peer;
}

static int on_word_async(struct channel *ch, const struct mesh_head *h, struct mesh_buf *b)
{
    inbox_push(ch, (int)h->word, b, h->round, h->peer);
    return is_server(ch) ? merge_and_answer(ch, (int)h->word) : CODEC_GO;
}

static int on_word(struct channel *ch, const struct mesh_head *h, struct mesh_buf *b)
{
    const struct round *r = &ch->round;
    const struct inbox *in = &r->inbox[h->word];
    bool is_redundant = has_redundant_words(ch);
    bool is_known = h->round < ch->codec.round || (h->round == ch->codec.round && (int)h->word < r->next) ||
                    (in->n > 0 && h->round <= in->letters[(in->first + in->n - 1) % r->depth].round);

    if (is_known && is_redundant) {
        channel_drop_buf(ch, b); /* another holder was quicker */
        return CODEC_GO;
    }
    if (is_known || in->n == r->depth || (!is_redundant && h->round > ch->codec.round + 1)) {
        channel_drop_buf(ch, b);
        channel_fail(ch, "node %d sent its word for round %llu in round %llu", h->peer,
                     (unsigned long long)h->round, (unsigned long long)ch->codec.round);
        return channel_blame(ch, h->peer);
    }
    if (r->has_said && h->round == ch->codec.round)
        channel_waited(ch, h->peer);
    inbox_push(ch, (int)h->word, b, h->round, h->peer);
    if (is_redundant && is_nearly_full(ch, (int)h->word))
        channel_pause(ch, h->peer, true);
    return is_server(ch) || r->has_said ? advance(ch) : CODEC_GO;
}

int round_on_message(struct channel *ch, const struct mesh_head *h, struct mesh_buf *b)
{
    if (h->kind == FRAME_REPLY && ch->server)
        return on_reply(ch, h, b);
    if (h->kind != FRAME_WORD || !may_say(ch, h)) {
        channel_drop_buf(ch, b);
        channel_fail(ch, "node %d sent a message that is not its to send", h->peer);
        return channel_blame(ch, h->peer);
    }
    return ch->codec.is_sync ? on_word(ch, h, b) : on_word_async(ch, h, b);
}

bool round_is_hopeless(const struct channel *ch)
{
    if (ch->server)
        return ch->round.awaits_reply && channel_has_left(ch, ch->server);
    if (is_server(ch) && channel_config(ch)->goes_on)
        return false;
    for (int word = ch->round.next; ch->codec.is_sync && word < ch->round.n_words; word++)
        if (!can_still_come(ch, word))
            return true;
    return false;
}

void round_waits_for(const struct channel *ch, char *out, size_t size)
{
    unsigned long long round = ch->codec.round + 1;

    if (ch->server)
        snprintf(out, size, "the reply of node %d in round %llu", ch->server, round);
    else if (ch->rule->per_block)
        snprintf(out, size, "the word on block %d in round %llu", ch->round.next, round);
    else
        snprintf(out, size, "the word of node %d in round %llu", ch->round.next, round);
}
