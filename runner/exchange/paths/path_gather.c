/* path_gather -- every worker sends its contribution to every other, and merges all of them in the order of
 * the workers. Plain gradients are contributed by block, so that a block counts as soon as one of its holders
 * has sent it; not those of a training program, whose number of samples is known after the step. */
#include "runner/exchange/exchange_private.h"

static bool is_plain_gradient(const struct codec_combine *r)
{
    return r->when == CODEC_EACH_STEP && !r->contribute;
}

static bool is_per_block(const struct codec_combine *r, bool has_trainer)
{
    return is_plain_gradient(r) && !has_trainer;
}

/* With one contribution nothing is sent: the worker has the combination. */
static bool is_known_to_all(const struct channel *ch)
{
    return ch->round.n_contributions == 1 && ch->combining.rule->reduction == CODEC_MEAN;
}

static int gather_open(struct channel *ch)
{
    struct combining *b = &ch->combining;
    bool replaces = !b->rule->apply && !ch->codec.global; /* a sent contribution may be overwritten */

    ch->compressing.is_by_block = is_plain_gradient(b->rule) && ch->x->cfg.has_trainer;
    for (int k = 0; k < b->n_vectors; k++) {
        b->merged[k] = replaces ? combining_target(ch) : b->own[k];
        if (!b->merged[k] && combining_room(ch, &b->merged[k]) < 0)
            return ch->x->e->code;
    }
    return combining_open_aggregate(ch, ch->round.n_contributions);
}

static int gather_encode(struct channel *ch, struct wire_out *out)
{
    int rc = combining_contribute(ch);

    if (rc == CODEC_GO && !is_known_to_all(ch))
        combining_put(ch, out, ch->combining.is_weighted);
    return rc;
}

static int gather_merge(struct channel *ch, int k, struct wire_in *in)
{
    (void)k;
    return is_known_to_all(ch) ? CODEC_GO : combining_take(ch, ch->round.sender, in);
}

static int gather_apply(struct channel *ch)
{
    struct combining *b = &ch->combining;
    int rc;

    if (is_known_to_all(ch)) {
        b->n_finished = ch->x->is_finished && b->weight == 0;
        ch->codec.n_contributions = 1;
        combining_check_finished(ch);
        return b->weight > 0 ? combining_apply(ch, b->vectors, b->numbers) : CODEC_GO;
    }
    combining_check_finished(ch);
    rc = combining_finish(ch);
    return rc == CODEC_WAIT ? CODEC_GO : rc;
}

#define GATHER .encode = gather_encode, .merge = gather_merge, .apply = gather_apply

static const struct round_rule *gather_round(const struct codec_combine *r, bool has_trainer)
{
    static const struct round_rule of_params = {GATHER}, of_grads = {GATHER, .before_update = true},
                                   of_blocks = {GATHER, .before_update = true, .per_block = true};

    return r->when == CODEC_EACH_ROUND ? &of_params : is_per_block(r, has_trainer) ? &of_blocks : &of_grads;
}

static struct codec_cost gather_cost(const struct channel *ch)
{
    const struct blocks *blocks = ch->x->cfg.blocks;
    uint64_t n_messages = (uint64_t)ch->codec.n_workers - 1;

    if (is_known_to_all(ch))
        return (struct codec_cost){0, 0};
    if (is_per_block(ch->combining.rule, ch->x->cfg.has_trainer)) {
        n_messages = 0;
        for (int b = 0; b < blocks->n_blocks; b++)
            for (int to = 0; blocks_holds(blocks, b, ch->run.node) && to < ch->codec.n_workers; to++)
                n_messages += !blocks_holds(blocks, b, to);
    }
    return (struct codec_cost){n_messages, n_messages * combining_bytes(ch, ch->combining.is_weighted)};
}

const struct combine_path path_gather = {.round = gather_round, .open = gather_open, .cost = gather_cost};
