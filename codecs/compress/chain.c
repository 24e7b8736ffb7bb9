#include "codecs/compress/chain.h"

#include <math.h>
#include <stdlib.h>

#include "codecs/compress/indices.h"

#define WORD sizeof(uint32_t)

static const struct compressor *selection(const struct chain *c)
{
    return c->spec.is[COMPRESS_SELECT];
}

static const void *options(const struct chain *c, enum compress_kind kind)
{
    return c->spec.options[kind].bytes;
}

static bool has_factor(const struct chain_spec *s)
{
    for (int k = 0; k < COMPRESS_KINDS; k++)
        if (s->ef && s->is[k] && s->is[k]->is_unbiased && s->is[k]->is_unbiased(s->options[k].bytes))
            return true;
    return false;
}

/* Returns how many of n values are sent. */
static size_t chain_count(const struct chain *c, size_t n)
{
    return selection(c) ? selection(c)->count(options(c, COMPRESS_SELECT), n) : n;
}

/* True where the message holds a seed instead of indices: both sides draw the indices from it. */
static bool by_seed(const struct chain *c, size_t n, size_t k)
{
    return selection(c) && selection(c)->by_seed && indices_bytes(n, k) > 2 * WORD;
}

static size_t n_scales(const struct chain *c, size_t k)
{
    return c->items.values->n_scales ? c->items.values->n_scales(c->items.options, k) : 0;
}

/* Returns the most bytes of n values that are compressed together. */
static size_t part_most_bytes(const struct chain *c, size_t n)
{
    size_t k, bytes;

    if (n == 0)
        return 0;
    k = chain_count(c, n);
    bytes = (has_factor(&c->spec) + n_scales(c, k)) * WORD + items_most_bytes(&c->items, k);
    if (selection(c))
        bytes += by_seed(c, n, k) ? 2 * WORD : indices_bytes(n, k);
    return (bytes + WORD - 1) / WORD * WORD;
}

static int n_parts(const struct chain *c, size_t n)
{
    return c->spec.per == CHAIN_PER_LAYER && n == c->n && c->n_layers > 0 ? c->n_layers : 1;
}

/* Returns where part i begins; part_start(c, n, n_parts) is the end of the last. */
static size_t part_start(const struct chain *c, size_t n, int i)
{
    return i == n_parts(c, n) ? n : i == 0 ? 0 : c->starts[i];
}

size_t chain_most_bytes(const struct chain *c, size_t n)
{
    size_t bytes = 0;

    for (int i = 0; i < n_parts(c, n); i++)
        bytes += part_most_bytes(c, part_start(c, n, i + 1) - part_start(c, n, i));
    return bytes;
}

static int allocate(struct chain *c, struct err *e)
{
    /* A part has no more values than the whole, and sends no more. */
    size_t k = c->n > 0 ? chain_count(c, c->n) : 0;
    bool is_short = false;

    if (selection(c)) {
        c->values = calloc(k + 1, sizeof *c->values);
        c->at = calloc(k + 1, sizeof *c->at);
        c->work.marks = calloc(c->n / 64 + 1, sizeof *c->work.marks);
        is_short = !c->values || !c->at || !c->work.marks;
    }
    if (c->spec.ef) {
        c->sent = calloc(c->n + 1, sizeof *c->sent);
        is_short |= !c->sent;
    }
    if (is_short)
        return err_set(e, ERR_NOMEM, "no memory for compressors of %zu values", c->n);
    return items_open(&c->items, k, e);
}

int chain_open(struct chain *c, const struct chain_spec *s, size_t n, const size_t *starts, int n_layers,
               struct err *e)
{
    *c = (struct chain){.spec = *s, .n = n, .starts = starts, .n_layers = n_layers};
    if (n > CHAIN_VALUES_MAX)
        return err_set(e, ERR_CONFIG, "a vector of %zu values is longer than compressors take, %d", n,
                       CHAIN_VALUES_MAX);
    c->work.loops = loops_best();
    c->items.coder = s->is[COMPRESS_SYMBOLS];
    c->items.values = s->is[COMPRESS_VALUES] ? s->is[COMPRESS_VALUES] : &compress_none;
    c->items.options = options(c, COMPRESS_VALUES);
    if (allocate(c, e) < 0) {
        chain_clear(c);
        return e->code;
    }
    return 0;
}

void chain_clear(struct chain *c)
{
    items_clear(&c->items);
    free(c->values);
    free(c->at);
    free(c->work.marks);
    free(c->sent);
    *c = (struct chain){0};
}

static void put_seed(struct wire_out *out, uint64_t seed)
{
    wire_put_u32(out, (uint32_t)seed);
    wire_put_u32(out, (uint32_t)(seed >> 32));
}

static uint64_t get_seed(struct wire_in *in)
{
    uint64_t low = wire_get_u32(in);

    return low | (uint64_t)wire_get_u32(in) << 32;
}

static void put_values(struct chain *c, const float *v, size_t n, struct wire_out *out)
{
    float *scales = wire_put(out, n_scales(c, n), sizeof *scales);
    void *items = scales ? items_room(&c->items, out, n) : NULL;

    if (!items)
        return;
    if (c->items.values->measure)
        c->items.values->measure(c->items.options, &c->work, v, n, scales);
    c->items.values->encode(c->items.options, &c->work, v, n, scales, items);
    items_put(&c->items, &c->work, out, n);
}

/* Writes one part, n > 0. */
static void put_part(struct chain *c, const float *v, size_t n, struct wire_out *out)
{
    size_t k = chain_count(c, n);
    uint64_t seed = 0;

    if (!selection(c)) {
        put_values(c, v, n, out);
        return;
    }
    if (selection(c)->by_seed)
        seed = rng_u64(c->work.rng);
    selection(c)->choose(options(c, COMPRESS_SELECT), &c->work, v, seed, n, k, c->at);
    for (size_t i = 0; i < k; i++)
        c->values[i] = v[c->at[i]];
    if (by_seed(c, n, k))
        put_seed(out, seed);
    put_values(c, c->values, k, out);
    if (!by_seed(c, n, k))
        indices_put(out, c->at, n, k);
}

static bool get_values(struct chain *c, struct wire_in *in, float *v, size_t n)
{
    const float *scales = wire_get_f32s(in, n_scales(c, n));
    const void *items = scales ? items_get(&c->items, &c->work, in, n) : NULL;

    if (!items)
        return false;
    c->items.values->decode(c->items.options, &c->work, scales, items, v, n);
    return true;
}

static bool get_part(struct chain *c, struct wire_in *in, float *v, size_t n)
{
    const void *o = options(c, COMPRESS_SELECT);
    size_t k = chain_count(c, n);
    bool is_drawn = by_seed(c, n, k);
    float gain;

    if (!selection(c))
        return get_values(c, in, v, n);
    if (is_drawn)
        selection(c)->choose(o, &c->work, NULL, get_seed(in), n, k, c->at);
    if (!get_values(c, in, c->values, k) || (!is_drawn && !indices_get(in, c->at, n, k)))
        return false;
    gain = selection(c)->gain ? selection(c)->gain(o, n, k) : 1;
    memset(v, 0, n * sizeof *v);
    for (size_t i = 0; i < k; i++)
        v[c->at[i]] = c->values[i] * gain;
    return true;
}

/* Returns the factor that minimizes |factor y - x|; 1 where it is not finite. */
static float best_factor(const struct chain *c, const float *x, const float *y, size_t n)
{
    float factor = (float)(c->work.loops->dot(x, y, n) / c->work.loops->dot(y, y, n));

    return isfinite(factor) ? factor : 1;
}

/* Encodes one part with error feedback: r holds x = v + decay r, and then the residual. */
static void put_part_with_feedback(struct chain *c, float *r, float *sent, size_t n, struct wire_out *out)
{
    float *factor = has_factor(&c->spec) ? wire_put(out, 1, sizeof *factor) : NULL;
    struct wire_in back = {.bytes = out->bytes, .at = out->len};

    put_part(c, r, n, out);
    back.len = out->len;
    if (out->bad || !get_part(c, &back, sent, n))
        return;
    if (factor) {
        *factor = best_factor(c, r, sent, n);
        c->work.loops->scale(sent, n, *factor);
    }
    c->work.loops->keep(r, sent, n);
}

void chain_encode(struct chain *c, struct rng *rng, float *residual, const float *v, size_t n,
                  struct wire_out *out)
{
    c->work.rng = rng;
    c->work.n_summed = 1;
    if (c->spec.ef)
        c->work.loops->feed(residual, v, n, c->spec.decay);
    for (int i = 0; i < n_parts(c, n); i++) {
        size_t start = part_start(c, n, i), len = part_start(c, n, i + 1) - start;

        if (len == 0)
            continue;
        wire_put(out, 0, WORD);
        if (c->spec.ef)
            put_part_with_feedback(c, residual + start, c->sent + start, len, out);
        else
            put_part(c, v + start, len, out);
    }
}

bool chain_decode(struct chain *c, struct wire_in *in, float *out, size_t n)
{
    c->work.n_summed = 1;
    for (int i = 0; i < n_parts(c, n); i++) {
        size_t start = part_start(c, n, i), len = part_start(c, n, i + 1) - start;
        bool has_one = has_factor(&c->spec);
        float factor = 1;

        if (len == 0)
            continue;
        wire_get(in, 0, WORD);
        if (has_one)
            factor = wire_get_f32(in);
        if (!get_part(c, in, out + start, len))
            in->bad = true;
        if (in->bad)
            return false;
        if (has_one)
            c->work.loops->scale(out + start, len, factor);
    }
    return !in->bad;
}

size_t chain_n_scales(const struct chain *c)
{
    return c->n > 0 ? n_scales(c, c->n) : 0;
}

void chain_measure(struct chain *c, float *residual, const float *v, float *scales)
{
    if (residual)
        c->work.loops->feed(residual, v, c->n, c->spec.decay);
    c->items.values->measure(c->items.options, &c->work, residual ? residual : v, c->n, scales);
}

void chain_to_items(struct chain *c, float *residual, const float *v, float *scales, int n_summed,
                    void *items)
{
    if (residual && !c->items.values->measure)
        c->work.loops->feed(residual, v, c->n, c->spec.decay);
    c->work.n_summed = n_summed;
    c->items.values->encode(c->items.options, &c->work, residual ? residual : v, c->n, scales, items);
    if (!residual)
        return;
    c->items.values->decode(c->items.options, &c->work, scales, items, c->sent, c->n);
    c->work.loops->keep(residual, c->sent, c->n);
}

void chain_of_items(struct chain *c, const float *scales, int n_summed, const void *items, float *out)
{
    c->work.n_summed = n_summed;
    c->items.values->decode(c->items.options, &c->work, scales, items, out, c->n);
}

/* Returns where part i begins; i = n_layers: the end of the vector. */
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

/* Returns the length of the longest vector that chain k compresses. */
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

        /* In a list, each tensor is a whole vector for its chain. */
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

/* Returns the number of parts of a vector that have a chain each. */
static int n_chained_parts(const struct chains *c)
{
    return c->use ? c->n_layers : 1;
}

static struct chain *chain_of_part(const struct chains *c, int i, size_t *at, size_t *n)
{
    *at = c->use ? start_of(c, i) : 0;
    *n = c->use ? length_of(c, i) : c->n;
    return &c->of[c->use ? c->use[i] : 0];
}

void chains_encode_difference(struct chains *c, struct rng *rng, float *left, float *y, const float *v,
                              struct wire_out *out)
{
    for (int i = 0; i < n_chained_parts(c); i++) {
        size_t at, n;
        struct chain *own = chain_of_part(c, i, &at, &n);
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
    for (int i = 0; i < n_chained_parts(c); i++) {
        size_t at, n;
        const struct chain *own = chain_of_part(c, i, &at, &n);

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
