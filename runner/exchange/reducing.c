#include "runner/exchange/reducing.h"

#include <stdlib.h>

#include "runner/base/vector.h"
#include "runner/exchange/exchange_private.h"

static void sum_items(const void *with, void *out, const void *const *in, int n_in, size_t n, float scale)
{
    const struct chain *c = with;

    c->items.values->sum(&c->work, out, in, n_in, n, scale);
}

/* The chain of whole vectors. */
static struct chain *chain_of(struct channel *ch)
{
    return &ch->compressing.up.of[0];
}

static size_t n_statistics(const struct channel *ch)
{
    return ch->n_params - ch->compressing.up.n;
}

static int make_head(struct channel *ch)
{
    struct reducing *r = &ch->reducing;

    r->head.n_scales = chain_n_scales(chain_of(ch));
    r->head.n = r->head.n_scales + n_statistics(ch);
    r->head.in = malloc((r->head.n + 1) * sizeof *r->head.in);
    r->head.sum = malloc((r->head.n + 1) * sizeof *r->head.sum);
    return r->head.in && r->head.sum ? CODEC_GO : -1;
}

int reducing_open(struct channel *ch)
{
    struct reducing *r = &ch->reducing;
    const struct chains *up = &ch->compressing.up;
    const struct chain *c;
    size_t n_bytes;

    r->is_on = up->n_chains > 0 && !up->use && chain_sums(&up->of[0].spec);
    if (!r->is_on)
        return CODEC_GO;
    c = chain_of(ch);
    r->item = (struct collective_item){.bytes = c->items.values->item_bytes, .sum = sum_items, .with = c};
    n_bytes = c->n * r->item.bytes + 1;
    r->in = malloc(n_bytes);
    r->out[0] = malloc(n_bytes);
    r->out[1] = malloc(n_bytes);
    if (r->in && r->out[0] && r->out[1] && make_head(ch) == CODEC_GO)
        return CODEC_GO;
    return err_set(ch->x->e, ERR_NOMEM, "no memory for %zu compressed numbers", ch->n_params);
}

void reducing_clear(struct reducing *r)
{
    free(r->in);
    free(r->out[0]);
    free(r->out[1]);
    free(r->head.in);
    free(r->head.sum);
    *r = (struct reducing){0};
}

/* The statistics of the result, from their sums. */
static void take_statistics(struct channel *ch, float *result)
{
    const struct reducing *r = &ch->reducing;
    const float *sums = r->head.sum + r->head.n_scales;
    float scale = r->what == CODEC_MEAN ? 1.0f / (float)ch->codec.n_workers : 1;

    vector_sum(result + ch->compressing.up.n, &sums, 1, n_statistics(ch), scale);
}

/* In shared memory: sums the floats that the items represent. */
static int start_floats(struct channel *ch)
{
    struct reducing *r = &ch->reducing;
    struct codec *c = &ch->codec;
    float *to = shm_group_in(ch->collecting.shm_group);
    size_t n = ch->compressing.up.n;

    chain_of_items(chain_of(ch), r->head.sum, c->n_workers, r->in, to);
    if (r->v != to)
        vector_copy(to + n, r->v + n, n_statistics(ch));
    return collecting_all_reduce(ch, r->what, to, r->result, ch->n_params);
}

static int start_items(struct channel *ch)
{
    struct reducing *r = &ch->reducing;
    float *residual = NULL;

    if (compressing_residual(ch, r->vector, &residual) < 0)
        return ch->x->e->code;
    chain_to_items(chain_of(ch), residual, r->v, r->head.sum, ch->codec.n_workers, r->in);
    if (ch->collecting.is_in_memory)
        return start_floats(ch);
    r->turn = !r->turn;
    return collecting_start(ch,
                            &(struct collective_request){.kind = COLLECTIVE_ALL_REDUCE,
                                                         .is_mean = r->what == CODEC_MEAN && r->head.n == 0,
                                                         .item = &r->item,
                                                         .in = r->in,
                                                         .out = r->out[r->turn],
                                                         .n = ch->compressing.up.n});
}

static int start_head(struct channel *ch)
{
    struct reducing *r = &ch->reducing;
    float *residual = NULL;

    if (compressing_residual(ch, r->vector, &residual) < 0)
        return ch->x->e->code;
    if (r->head.n_scales > 0)
        chain_measure(chain_of(ch), residual, r->v, r->head.in);
    vector_copy(r->head.in + r->head.n_scales, r->v + ch->compressing.up.n, n_statistics(ch));
    r->head.is_under_way = true;
    return collecting_all_reduce(ch, CODEC_SUM, r->head.in, r->head.sum, r->head.n);
}

int reducing_start(struct channel *ch, int vector, enum codec_reduction what, const float *v, float *result)
{
    struct reducing *r = &ch->reducing;

    r->vector = vector;
    r->what = what;
    r->v = v;
    r->result = result;
    return r->head.n > 0 ? start_head(ch) : start_items(ch);
}

int reducing_link(struct channel *ch, const int *machines, bool *linked)
{
    const struct reducing *r = &ch->reducing;
    int rc = r->head.n > 0 ? collecting_link(ch, r->head.n, NULL, machines, linked) : CODEC_GO;

    return rc == CODEC_GO ? collecting_link(ch, ch->compressing.up.n, &r->item, machines, linked) : rc;
}

int reducing_on_collective(struct channel *ch)
{
    struct reducing *r = &ch->reducing;
    struct chain *chain = chain_of(ch);
    bool has_head = r->head.n > 0, is_mean = r->what == CODEC_MEAN;

    if (r->head.is_under_way) {
        r->head.is_under_way = false;
        return start_items(ch);
    }
    if (ch->collecting.is_in_memory)
        return CODEC_GO;
    chain_of_items(chain, r->head.sum, ch->codec.n_workers, r->out[r->turn], r->result);
    if (!has_head)
        return CODEC_GO;
    if (is_mean)
        chain->work.loops->scale(r->result, chain->n, 1.0f / (float)ch->codec.n_workers);
    take_statistics(ch, r->result);
    return CODEC_GO;
}
