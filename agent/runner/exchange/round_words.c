/* The words that have come to a round: by worker, or by block, until they are merged. */
#include <stdlib.h>

#include "agent/runner/exchange/channel.h"

int round_open(struct channel *ch)
{
    struct round *r = &ch->round;
    bool is_synchronous_among_workers = ch->codec.is_sync && ch->codec.n_servers == 0;

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
    if (!channel_config(ch)->goes_on || !is_synchronous_among_workers || round_has_redundancy(ch))
        return CODEC_GO;
    /* Word k is worker k's: without redundancy, block k is. */
    r->kept = calloc((size_t)r->n_words, sizeof(struct mesh_buf *));
    if (!r->kept || !agreement_open(&r->agreement, r->n_words, ch->codec.node))
        return err_set(channel_err(ch), ERR_NOMEM, "no memory for the statements of %d workers", r->n_words);
    return CODEC_GO;
}

static struct letter pop(const struct channel *ch, struct inbox *in)
{
    struct letter l = in->letters[in->first];

    in->first = (in->first + 1) % ch->round.depth;
    in->n--;
    return l;
}

void round_drop_words(struct channel *ch, int word)
{
    while (ch->round.inbox[word].n > 0)
        channel_drop_buf(ch, pop(ch, &ch->round.inbox[word]).buf);
}

void round_clear(struct channel *ch)
{
    for (int w = 0; ch->round.inbox && ch->round.letters && w < ch->round.n_words; w++)
        round_drop_words(ch, w);
    for (int w = 0; ch->round.kept && w < ch->round.n_words; w++)
        channel_drop_buf(ch, ch->round.kept[w]);
    free(ch->round.inbox);
    free(ch->round.letters);
    free(ch->round.kept);
    undo_clear(&ch->round.undo);
    agreement_clear(&ch->round.agreement);
    ch->round = (struct round){0};
}

void round_push(struct channel *ch, int word, struct mesh_buf *b, uint64_t round, int from)
{
    struct inbox *in = &ch->round.inbox[word];

    if (in->n == ch->round.depth) { /* only in asgd: the oldest word gives way */
        channel_drop_buf(ch, pop(ch, in).buf);
        channel_overtaken(ch);
    }
    in->letters[(in->first + in->n++) % ch->round.depth] = (struct letter){
        .buf = b, .round = round, .from = from};
}

bool round_has_redundancy(const struct channel *ch)
{
    return ch->rule->per_block && channel_config(ch)->blocks->redundancy > 1;
}

/* Room is kept for one more word of each holder: each is paused only by a word of its own. */
bool round_is_nearly_full(const struct channel *ch, int word)
{
    return ch->round.inbox[word].n >= ch->round.depth - channel_config(ch)->blocks->redundancy;
}

static bool is_ahead(const struct channel *ch, int worker)
{
    for (int word = 0; word < ch->round.n_words; word++)
        if (round_is_nearly_full(ch, word) && blocks_holds(channel_config(ch)->blocks, word, worker))
            return true;
    return false;
}

void round_resume_those_no_longer_ahead(struct channel *ch)
{
    for (int w = 0; round_has_redundancy(ch) && w < ch->codec.n_workers; w++)
        if (w != ch->codec.node && !is_ahead(ch, w))
            channel_pause(ch, w, false);
}

bool round_has_word(const struct channel *ch, int word)
{
    const struct inbox *in = &ch->round.inbox[word];

    return in->n > 0 && in->letters[in->first].round == ch->codec.round;
}

int round_sender(const struct channel *ch, int word)
{
    const struct inbox *in = &ch->round.inbox[word];

    return in->letters[in->first].from;
}

int round_merge_word(struct channel *ch, int word)
{
    const struct inbox *in = &ch->round.inbox[word];
    struct letter *l = &in->letters[in->first];
    int rc;

    ch->codec.block = ch->rule->per_block ? word : -1;
    rc = channel_decode(ch, PHASE_DECODE, "merge", ch->rule->merge, word, l->buf);
    ch->codec.block = -1;
    l->saved = ch->compressing.saved_in;
    ch->codec.n_merged++;
    return rc;
}

void round_finish_word(struct channel *ch, int word)
{
    struct letter l = pop(ch, &ch->round.inbox[word]);

    ch->compressing.saved_in = l.saved;
    if (l.from != ch->codec.node)
        channel_received(ch, l.from, l.buf->len);
    if (ch->round.kept)
        ch->round.kept[word] = l.buf;
    else
        channel_drop_buf(ch, l.buf);
}

bool round_can_still_come(const struct channel *ch, int word)
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
