/* Foresees an exchange's memory: vectors and messages, which grow with the model. */
#include "runner/exchange/exchange_private.h"
#include "runner/exchange/path.h"

/* The codec's own vectors, and those of the host for a rule that combines. */
static double numbers(const struct channel *ch)
{
    const struct combining *b = &ch->combining;
    int n_vectors = b->n_rooms + (b->path && b->path->n_later ? b->path->n_later(ch) : 0) +
                    (b->all ? b->n_most * b->n_vectors : 0) + (ch->collecting.sum != NULL);
    double n = (double)n_vectors * (double)ch->n_params;

    for (size_t i = 0; i < ch->n_zeros; i++)
        n += (double)vector_bytes(&ch->zeros[i]) / sizeof(float);
    if (round_agrees(ch)) /* undo.h */
        n += n + (ch->codec.global ? 2 : 1) * (double)ch->n_params;
    return n;
}

/* Residuals, copies, what receivers decode, items, and decoded vectors of the message being read. */
static double compressed_bytes(const struct channel *ch)
{
    const struct compressing *c = &ch->compressing;
    const struct chains *ways[] = {&c->up, &c->down};
    double bytes = (double)compressing_saved_bytes(ch);

    for (int k = 0; k < 2; k++)
        for (int i = 0; i < ways[k]->n_chains; i++)
            bytes += ways[k]->of[i].sent ? (double)(ways[k]->of[i].n * sizeof(float)) : 0;
    if (c->copies.n > 0) /* copies.work; and a worker decodes into a vector */
        bytes += (double)(c->copies.n_params * sizeof(float)) * (ch->run.node < 0 ? 1 : 2);
    if (ch->reducing.is_on)
        return bytes + 3 * (double)(c->up.n * ch->reducing.item.bytes);
    return c->up.n_chains > 0 ? bytes + (double)ch->limit : bytes;
}

double exchange_bytes(const struct exchange *x)
{
    double bytes = 0;

    for (int i = 0; i < x->n_channels; i++) {
        const struct channel *ch = &x->channels[i];

        bytes += sizeof(float) * numbers(ch) + compressed_bytes(ch);
        if (exchange_has_messages(x) && x->cfg.n_workers > 1)
            bytes += 2 * (double)ch->limit; /* one being written, one being read */
    }
    return bytes;
}
