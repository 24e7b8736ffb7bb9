/* The contributions received, by worker or by block, until they are merged. */
#include <stdlib.h>

#include "runner/exchange/exchange_private.h"

int round_open(struct channel *ch)
{
    struct round *r = &ch->round;
    bool is_synchronous_among_workers = ch->codec.is_sync && ch->run.n_servers == 0;

    if (ch->server) /* a server's worker receives replies, not contributions */
        return CODEC_GO;
    r->n_contributions = ch->rule->per_block ? ch->run.n_blocks : ch->codec.n_workers;
    r->depth = ch->x->cfg.blocks->redundancy + 3;
    r->inbox = calloc((size_t)r->n_contributions, sizeof *r->inbox);
    r->contributions = calloc((size_t)r->n_contributions * (size_t)r->depth, sizeof *r->contributions);
    if (!r->inbox || !r->contributions)
        return err_set(ch->x->e, ERR_NOMEM, "no memory for %d contributions", r->n_contributions);
    for (int w = 0; w < r->n_contributions; w++)
        r->inbox[w].contributions = r->contributions + w * r->depth;
    if (!ch->x->cfg.goes_on || !is_synchronous_among_workers || round_has_redundancy(ch))
        return CODEC_GO;
    /* Contribution k is worker k's: without redundancy, so is block k, or the job is refused
     * (combine_path.c). */
    r->kept = calloc((size_t)r->n_contributions, sizeof(struct mesh_buf *));
    if (!r->kept || !agreement_open(&r->agreement, r->n_contributions, ch->run.node))
        return err_set(ch->x->e, ERR_NOMEM, "no memory for the statements of %d workers", r->n_contributions);
    return CODEC_GO;
}

static struct contribution pop(const struct channel *ch, struct round_inbox *in)
{
    struct contribution c = in->contributions[in->first];

    in->first = (in->first + 1) % ch->round.depth;
    in->n--;
    return c;
}

void round_drop(struct channel *ch, int k)
{
    while (ch->round.inbox[k].n > 0)
        mesh_buf_put(pop(ch, &ch->round.inbox[k]).buf);
}

void round_clear(struct channel *ch)
{
    for (int w = 0; ch->round.inbox && ch->round.contributions && w < ch->round.n_contributions; w++)
        round_drop(ch, w);
    for (int w = 0; ch->round.kept && w < ch->round.n_contributions; w++)
        mesh_buf_put(ch->round.kept[w]);
    mesh_buf_put(ch->round.early);
    free(ch->round.inbox);
    free(ch->round.contributions);
    free(ch->round.kept);
    undo_clear(&ch->round.undo);
    agreement_clear(&ch->round.agreement);
    ch->round = (struct round){0};
}

void round_push(struct channel *ch, int k, struct mesh_buf *b, uint64_t round, int from)
{
    struct round_inbox *in = &ch->round.inbox[k];

    if (in->n == ch->round.depth) { /* only in asgd: drops the oldest */
        mesh_buf_put(pop(ch, in).buf);
        channel_overtaken(ch);
    }
    in->contributions[(in->first + in->n++) % ch->round.depth] = (struct contribution){
        .buf = b, .round = round, .from = from};
}

bool round_has_redundancy(const struct channel *ch)
{
    return ch->draw || (ch->rule->per_block && ch->x->cfg.blocks->redundancy > 1);
}

/* Room remains for one more contribution of each holder: a holder is paused only after one of its own. */
bool round_is_nearly_full(const struct channel *ch, int k)
{
    return ch->round.inbox[k].n >= ch->round.depth - ch->x->cfg.blocks->redundancy;
}

static bool is_ahead(const struct channel *ch, int worker)
{
    for (int k = 0; k < ch->round.n_contributions; k++)
        if (round_is_nearly_full(ch, k) && blocks_holds(ch->x->cfg.blocks, k, worker))
            return true;
    return false;
}

void round_resume_workers(struct channel *ch)
{
    for (int w = 0; round_has_redundancy(ch) && w < ch->codec.n_workers; w++)
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

    ch->run.block = ch->rule->per_block ? k : -1;
    rc = channel_decode(ch, PHASE_DECODE, "merge", ch->rule->merge, k, c->buf);
    ch->run.block = -1;
    c->saved = ch->compressing.saved_in;
    ch->run.n_merged++;
    return rc;
}

void round_finish(struct channel *ch, int k)
{
    struct contribution c = pop(ch, &ch->round.inbox[k]);

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
