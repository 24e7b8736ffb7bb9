/* chains -- the chains of a chain_list at work: each tensor of a vector goes through its own. */
#include <stdlib.h>

#include "codecs/compress/chain_list.h"

/* Where tensor i begins; the one after the last is the end. */
static size_t start_of(const struct chains *c, int i)
{
    return i == c->n_layers ? c->n : i == 0 ? 0 : c->starts[i];
}

static size_t length_of(const struct chains *c, int i)
{
    return start_of(c, i + 1) - start_of(c, i);
}

static int find_uses(struct chains *c, const struct chain_list *l, const struct codec_layer *layers,
                     struct err *e)
{
    c->use = calloc((size_t)c->n_layers + 1, sizeof *c->use);
    if (!c->use)
        return err_set(e, ERR_NOMEM, "no memory for the compressors of %d layers", c->n_layers);
    for (int i = 0; i < c->n_layers; i++) {
        c->use[i] = chain_list_find(l, layers[i].name);
        if (c->use[i] < 0)
            return err_set(e, ERR_CONFIG, "the list of compressors has none for %s, and none for *",
                           layers[i].name);
    }
    return 0;
}

/* The longest vector that chain k compresses. */
static size_t longest(const struct chains *c, int k)
{
    size_t n = 0;

    if (!c->use)
        return c->n;
    for (int i = 0; i < c->n_layers; i++)
        if (c->use[i] == k && length_of(c, i) > n)
            n = length_of(c, i);
    return n;
}

int chains_open(struct chains *c, const struct chain_list *l, size_t n, const struct codec_layer *layers,
                const size_t *starts, int n_layers, struct err *e)
{
    *c = (struct chains){.n = n, .starts = starts, .n_layers = n_layers};
    if (l->n == 0)
        return 0;
    c->of = calloc((size_t)l->n, sizeof *c->of);
    if (!c->of) {
        err_set(e, ERR_NOMEM, "no memory for %d chains of compressors", l->n);
        goto fail;
    }
    if (l->is_by_layer && find_uses(c, l, layers, e) < 0)
        goto fail;
    for (; c->n_chains < l->n; c->n_chains++) {
        const struct chain_spec *s = &l->of[c->n_chains].chain;

        /* Of a list, a tensor is the whole vector of its chain. */
        if (chain_open(&c->of[c->n_chains], s, longest(c, c->n_chains), starts, c->use ? 0 : n_layers, e) < 0)
            goto fail;
        c->has_ef |= s->ef;
    }
    return 0;
fail:
    chains_clear(c);
    return e->code;
}

void chains_clear(struct chains *c)
{
    for (int k = 0; k < c->n_chains; k++)
        chain_clear(&c->of[k]);
    free(c->of);
    free(c->use);
    *c = (struct chains){0};
}

bool chains_take(const struct chains *c, size_t n)
{
    return c->n_chains > 0 && (c->use ? n == c->n : n <= c->n);
}

size_t chains_most_bytes(const struct chains *c)
{
    size_t bytes = 0;

    if (!c->use)
        return chain_most_bytes(&c->of[0], c->n);
    for (int i = 0; i < c->n_layers; i++)
        bytes += chain_most_bytes(&c->of[c->use[i]], length_of(c, i));
    return bytes;
}

void chains_encode(struct chains *c, struct rng *rng, float *residual, const float *v, size_t n,
                   struct wire_out *out)
{
    if (!c->use) {
        chain_encode(&c->of[0], rng, residual, v, n, out);
        return;
    }
    for (int i = 0; i < c->n_layers; i++) {
        struct chain *own = &c->of[c->use[i]];
        size_t at = start_of(c, i);

        chain_encode(own, rng, own->spec.ef ? residual + at : NULL, v + at, length_of(c, i), out);
    }
}

bool chains_decode(struct chains *c, struct wire_in *in, float *out, size_t n)
{
    if (!c->use)
        return chain_decode(&c->of[0], in, out, n);
    for (int i = 0; i < c->n_layers; i++)
        if (!chain_decode(&c->of[c->use[i]], in, out + start_of(c, i), length_of(c, i)))
            return false;
    return true;
}

/* Parts of a vector with a chain each. */
static int n_parts(const struct chains *c)
{
    return c->use ? c->n_layers : 1;
}

static struct chain *part_of_chain(const struct chains *c, int i, size_t *at, size_t *n)
{
    *at = c->use ? start_of(c, i) : 0;
    *n = c->use ? length_of(c, i) : c->n;
    return &c->of[c->use ? c->use[i] : 0];
}

void chains_encode_difference(struct chains *c, struct rng *rng, float *left, float *y, const float *v,
                              struct wire_out *out)
{
    for (int i = 0; i < n_parts(c); i++) {
        size_t at, n;
        struct chain *own = part_of_chain(c, i, &at, &n);
        bool is_difference = own->spec.ef;

        for (size_t k = at; k < at + n; k++)
            left[k] = is_difference ? -y[k] : 0;
        chain_encode(own, rng, is_difference ? left + at : NULL, v + at, n, out);
        for (size_t k = 0; k < n; k++)
            y[at + k] = is_difference ? y[at + k] + own->sent[k] : v[at + k];
    }
}

void chains_add_base(const struct chains *c, const float *y, float *decoded)
{
    for (int i = 0; i < n_parts(c); i++) {
        size_t at, n;
        const struct chain *own = part_of_chain(c, i, &at, &n);

        for (size_t k = at; own->spec.ef && k < at + n; k++)
            decoded[k] += y[k];
    }
}

struct compress_report chains_report(const struct chains *c)
{
    struct compress_report sum = {0};

    for (int k = 0; k < c->n_chains; k++) {
        const struct compress_report *r = &c->of[k].work.report;

        sum.n_symbols += r->n_symbols;
        sum.n_bits += r->n_bits;
        sum.entropy += r->entropy;
    }
    return sum;
}
