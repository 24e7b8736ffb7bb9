#include "agent/runner/exchange/reducing.h"

#include <stdlib.h>

#include "agent/runner/exchange/channel.h"

static void sum_items(const void *with, void *out, const void *const *in, int n_in, size_t n, float scale)
{
    const struct chain *c = with;

    c->items.values->sum(&c->work, out, in, n_in, n, scale);
}

int reducing_open(struct channel *ch)
{
    struct reducing *r = &ch->reducing;
    const struct chain *c = &ch->compressing.up;
    size_t n_bytes;

    r->is_on = ch->compressing.has_up && chain_sums(&c->spec);
    if (!r->is_on)
        return CODEC_GO;
    n_bytes = chain_most_bytes(c, ch->n_params) + 1;
    r->item = (struct collective_item){.bytes = c->items.values->item_bytes, .sum = sum_items, .with = c};
    r->in = malloc(n_bytes);
    r->out[0] = malloc(n_bytes);
    r->out[1] = malloc(n_bytes);
    if (r->in && r->out[0] && r->out[1])
        return CODEC_GO;
    return err_set(channel_err(ch), ERR_NOMEM, "no memory for %zu compressed numbers", ch->n_params);
}

void reducing_clear(struct reducing *r)
{
    free(r->in);
    free(r->out[0]);
    free(r->out[1]);
    *r = (struct reducing){0};
}

int reducing_put(struct channel *ch, int vector, const float *v)
{
    struct wire_out out = {.bytes = ch->reducing.in,
                           .limit = chain_most_bytes(&ch->compressing.up, ch->n_params)};

    compressing_begin_writing(ch);
    ch->compressing.n_put = vector;
    compressing_put(ch, &out, v, ch->n_params);
    ch->compressing.saved_out = 0;
    if (out.bad)
        return err_set(channel_err(ch), ERR_NOMEM, "no memory for the residual of %zu numbers", ch->n_params);
    return CODEC_GO;
}

void reducing_get(struct channel *ch, const void *items, float *v)
{
    struct wire_in in = {.bytes = items, .len = chain_most_bytes(&ch->compressing.up, ch->n_params)};

    chain_decode(&ch->compressing.up, &in, v, ch->n_params);
}

int reducing_start(struct channel *ch, enum codec_reduction what)
{
    struct reducing *r = &ch->reducing;

    r->turn = !r->turn;
    return collecting_start(ch, &(struct collective_ask){.kind = COLLECTIVE_ALL_REDUCE,
                                                         .is_mean = what == CODEC_MEAN,
                                                         .item = &r->item,
                                                         .in = r->in,
                                                         .out = r->out[r->turn],
                                                         .n = ch->n_params});
}
