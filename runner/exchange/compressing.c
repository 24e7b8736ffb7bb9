#include "runner/exchange/compressing.h"

#include <stdlib.h>
#include <string.h>

#include "runner/base/vector.h"
#include "runner/exchange/exchange_private.h"
#include "shared/plugin/combine_path.h"

enum {
    VECTORS_MAX = 64, /* vectors of a message for which the limit is raised */
    OVERHEAD = 64     /* bytes that a chain adds to a short vector: scales, a seed, tables, rounding up */
};

/* The most vectors of the whole range that a message of the rule has room for. */
static size_t vectors_in(const struct channel *ch)
{
    return ch->n_params > 0 ? ch->limit / (sizeof(float) * ch->n_params) + 1 : 0;
}

/* The number of layers in the first n parameters. */
static int n_layers_in(const struct channel *ch, size_t n)
{
    int k = ch->n_layers;

    while (k > 0 && ch->layers[k - 1].offset >= n && n < ch->n_params)
        k--;
    return k;
}

/* Opens the chains for vectors of n parameters. */
static int open_chains(struct channel *ch, struct chains *c, const struct chain_list *l, size_t n,
                       struct err *e)
{
    size_t plain = n * sizeof(float), most;

    if (chains_open(c, l, n, ch->layers, ch->compressing.starts, n_layers_in(ch, n), e) < 0)
        return e->code;
    if (c->n_chains == 0)
        return 0;
    most = chains_most_bytes(c);
    if (most > plain)
        ch->limit += vectors_in(ch) * (most - plain);
    ch->limit += VECTORS_MAX * OVERHEAD;
    return 0;
}

/* Returns n vectors of zeros. NULL: no memory. */
static float **make_vectors(int n, size_t n_params)
{
    float **v = calloc((size_t)n, sizeof *v);

    for (int k = 0; v && k < n; k++)
        if (!(v[k] = calloc(n_params + 1, sizeof **v))) {
            while (k > 0)
                free(v[--k]);
            free(v);
            return NULL;
        }
    return v;
}

static void free_vectors(float **v, int n)
{
    for (int k = 0; v && k < n; k++)
        free(v[k]);
    free(v);
}

static void clear_copies(struct copies *c)
{
    free_vectors(c->of, c->n);
    free_vectors(c->left, c->n);
    free(c->work);
    *c = (struct copies){0};
}

/* Do the contributions that this server gets lack what its messages left out? */
static bool needs_left(const struct channel *ch)
{
    const struct exchange_config *cfg = &ch->x->cfg;
    struct combine_path_rule rule;

    if (ch->run.node >= 0 || !cfg->plugin->combine)
        return false;
    rule = combine_path_rule_of(cfg->plugin);
    return combine_path_workers_continue(&rule, cfg->is_sync);
}

/* A round of ssgd has one reply for all workers. */
static int open_copies(struct channel *ch, struct err *e)
{
    struct copies *c = &ch->compressing.copies;
    bool is_one = ch->run.node >= 0 || (ch->rule && ch->codec.is_sync), keeps_left = needs_left(ch);
    int n = is_one ? 1 : ch->codec.n_workers;
    size_t n_params = ch->n_params;

    *c = (struct copies){.n = n, .n_params = n_params};
    c->of = make_vectors(n, n_params);
    c->left = keeps_left ? make_vectors(n, n_params) : NULL;
    c->work = calloc(n_params + 1, sizeof *c->work);
    if (!c->of || !c->work || (keeps_left && !c->left)) {
        clear_copies(c);
        return err_set(e, ERR_NOMEM, "no memory for %d copies of %zu parameters", n, n_params);
    }
    for (int k = 0; n_params > 0 && k < n; k++)
        memcpy(c->of[k], ch->codec.params, n_params * sizeof *ch->codec.params);
    return 0;
}

/* The index of that worker's copy; 0 where all workers have the same. */
static int copy_index(const struct copies *c, int worker)
{
    return c->n == 1 ? 0 : worker;
}

int compressing_open(struct channel *ch, struct err *e)
{
    const struct exchange_config *cfg = &ch->x->cfg;
    struct compressing *c = &ch->compressing;
    struct chain_pair pair;

    if (chain_pair_parse(&pair, cfg->compress, cfg->compress_down, cfg->plugin->name,
                         combine_path_compression(cfg->plugin),
                         cfg->n_servers > 0 && combine_path_sends_params_down(cfg->plugin, cfg->is_sync),
                         e) < 0)
        return e->code;
    c->starts = calloc((size_t)ch->n_layers + 1, sizeof *c->starts);
    if (!c->starts)
        return err_set(e, ERR_NOMEM, "no memory for a list of %d layers", ch->n_layers);
    for (int i = 1; i < ch->n_layers; i++)
        c->starts[i] = ch->layers[i].offset;
    if (open_chains(ch, &c->up, &pair.up, ch->n_trained, e) < 0 ||
        open_chains(ch, &c->down, &pair.down, ch->n_trained, e) < 0)
        return e->code;
    return pair.down_differs ? open_copies(ch, e) : 0;
}

void compressing_clear(struct compressing *c)
{
    chains_clear(&c->up);
    chains_clear(&c->down);
    for (size_t i = 0; i < c->n_residuals; i++)
        free(c->residuals[i].v);
    for (int i = 0; i < c->n_read; i++)
        free(c->read[i].v);
    clear_copies(&c->copies);
    free(c->residuals);
    free(c->read);
    free(c->starts);
    *c = (struct compressing){0};
}

static bool sends_differences(const struct channel *ch, bool is_down)
{
    return is_down && ch->compressing.copies.n > 0;
}

/* Returns the chains for vector number `vector` in this direction; NULL: it is sent uncompressed. In a vector
 * of the whole range *n becomes the number of compressed values: the running statistics behind them are not
 * compressed. */
static struct chains *chains_for(struct channel *ch, bool is_down, int vector, size_t *n)
{
    struct chains *c = is_down ? &ch->compressing.down : &ch->compressing.up;
    bool is_whole = *n == ch->n_params;

    if (sends_differences(ch, is_down) && (vector > 0 || !is_whole))
        return NULL;
    if (c->n_chains > 0 && is_whole)
        *n = c->n;
    return chains_take(c, *n) ? c : NULL;
}

static struct chains *own_chains(struct channel *ch, int vector, size_t *n)
{
    return chains_for(ch, ch->run.node < 0, vector, n);
}

/* Created as zeros on first use. NULL: no memory. */
static struct residual *residual_of(struct compressing *c, int block, int vector, size_t n)
{
    struct residual *more;

    for (size_t i = 0; i < c->n_residuals; i++)
        if (c->residuals[i].block == block && c->residuals[i].vector == vector && c->residuals[i].n == n)
            return &c->residuals[i];
    more = realloc(c->residuals, (c->n_residuals + 1) * sizeof *more);
    if (!more)
        return NULL;
    c->residuals = more;
    more[c->n_residuals] = (struct residual){
        .block = block, .vector = vector, .n = n, .v = calloc(n + 1, sizeof(float))};
    return more[c->n_residuals].v ? &more[c->n_residuals++] : NULL;
}

/* -1: the contribution is not about a block. */
static int block_of(const struct channel *ch)
{
    const struct blocks *blocks = ch->x->cfg.blocks;

    for (int k = 0; ch->compressing.is_by_block && k < blocks->n_blocks; k++)
        if (blocks_holds(blocks, k, ch->run.node))
            return k;
    return ch->run.block;
}

/* Returns the generator of random numbers: for a contribution about a block its own (`of_block`), otherwise
 * the channel's, which a checkpoint saves. */
static struct rng *generator(struct channel *ch, struct rng *of_block)
{
    const uint64_t not_a_node = 1 << 20;
    int block = block_of(ch);

    if (block < 0)
        return &ch->rng;
    rng_init(of_block, ch->x->cfg.seed, not_a_node + (uint64_t)block,
             ch->run.round * VECTORS_MAX + (uint64_t)ch->compressing.n_put);
    return of_block;
}

/* Sends the first n of `whole` numbers as a difference. */
static void put_difference(struct channel *ch, struct chains *chains, struct wire_out *out, const float *v,
                           size_t n, size_t whole)
{
    struct compressing *c = &ch->compressing;
    int k = copy_index(&c->copies, c->to);
    float *left, *y;

    if (k < 0 || k >= c->copies.n) {
        out->bad = c->lacks_receiver = true;
        return;
    }
    y = c->copies.of[k];
    left = c->copies.left ? c->copies.left[k] : c->copies.work;
    if (!y) /* the worker is lost: this message is never sent */
        return;
    chains_encode_difference(chains, &ch->rng, left, y, v, out);
    vector_copy(y + n, v + n, whole - n);
}

static void put_itself(struct channel *ch, struct chains *chains, struct wire_out *out, const float *v,
                       size_t n)
{
    struct compressing *c = &ch->compressing;
    struct residual *r = NULL;
    struct rng of_block;

    if (chains->has_ef) {
        r = residual_of(c, ch->run.block, c->n_put, n);
        if (!r) {
            out->bad = c->lacks_memory = true;
            return;
        }
    }
    chains_encode(chains, generator(ch, &of_block), r ? r->v : NULL, v, n, out);
}

void compressing_put(struct channel *ch, struct wire_out *out, const float *v, size_t n)
{
    struct compressing *c = &ch->compressing;
    size_t whole = n, start = out->len;
    struct chains *chains = own_chains(ch, c->n_put, &n);

    if (!chains) {
        wire_put_f32s(out, v, n);
        return;
    }
    if (sends_differences(ch, ch->run.node < 0))
        put_difference(ch, chains, out, v, n, whole);
    else
        put_itself(ch, chains, out, v, n);
    c->n_put++;
    if (whole > n)
        wire_put_f32s(out, v + n, whole - n);
    c->saved_out += (int64_t)(whole * sizeof *v) - (int64_t)(out->len - start);
}

/* Returns the buffer for the next vector of the message. NULL: no memory. */
static float *next_vector(struct compressing *c, size_t n)
{
    float *v;
    void *more;

    if (c->n_got == c->n_read) {
        more = realloc(c->read, (size_t)(c->n_read + 1) * sizeof *c->read);
        if (!more)
            return NULL;
        c->read = more;
        c->read[c->n_read].v = NULL;
        c->read[c->n_read++].n = 0;
    }
    if (!c->read[c->n_got].v || c->read[c->n_got].n < n) {
        v = realloc(c->read[c->n_got].v, (n + 1) * sizeof *v);
        if (!v)
            return NULL;
        c->read[c->n_got].v = v;
        c->read[c->n_got].n = n;
    }
    return c->read[c->n_got++].v;
}

/* Adds the difference `d` (n) to this worker's copy; values behind the first n are sent as they are, not as
 * differences. */
static const float *with_difference(struct copies *c, const struct chains *chains, const float *d,
                                    size_t whole)
{
    vector_copy(c->work, d, whole);
    chains_add_base(chains, c->of[0], c->work);
    c->is_read = true;
    return c->work;
}

const float *compressing_get(struct channel *ch, struct wire_in *in, size_t n)
{
    struct compressing *c = &ch->compressing;
    size_t whole = n, start = in->at;
    struct chains *chains = chains_for(ch, c->from < 0, c->n_got, &n);
    const float *rest = NULL;
    float *v;

    if (!chains)
        return wire_get_f32s(in, n);
    v = next_vector(c, whole);
    if (!v || !chains_decode(chains, in, v, n) || (whole > n && !(rest = wire_get_f32s(in, whole - n)))) {
        in->bad = true;
        return NULL;
    }
    if (rest)
        memcpy(v + n, rest, (whole - n) * sizeof *v);
    c->saved_in += (int64_t)(whole * sizeof *v) - (int64_t)(in->at - start);
    return sends_differences(ch, c->from < 0) ? with_difference(&c->copies, chains, v, whole) : v;
}

void compressing_end_reading(struct compressing *c)
{
    struct copies *own = &c->copies;
    float *y = own->work;

    if (!own->is_read)
        return;
    own->work = own->of[0];
    own->of[0] = y;
    own->is_read = false;
}

const float *compressing_whole(struct channel *ch, int from, const float *v)
{
    struct copies *c = &ch->compressing.copies;
    const float *left = c->left ? c->left[copy_index(c, from)] : NULL;

    if (!left)
        return v;
    vector_copy(c->work, v, c->n_params);
    vector_add(c->work, left, 1, ch->compressing.down.n);
    return c->work;
}

void compressing_forget(struct compressing *c, int worker)
{
    struct copies *own = &c->copies;

    if (own->n <= 1)
        return;
    free(own->of[worker]);
    own->of[worker] = NULL;
    if (!own->left)
        return;
    free(own->left[worker]);
    own->left[worker] = NULL;
}

int compressing_residual(struct channel *ch, int vector, float **r)
{
    const struct chains *c = &ch->compressing.up;
    struct residual *is;

    *r = NULL;
    if (!c->has_ef)
        return CODEC_GO;
    is = residual_of(&ch->compressing, ch->run.block, vector, c->n);
    if (!is)
        return err_set(ch->x->e, ERR_NOMEM, "no memory for the residual of %zu numbers", c->n);
    *r = is->v;
    return CODEC_GO;
}

uint64_t compressing_saved_bytes(const struct channel *ch)
{
    const struct compressing *c = &ch->compressing;
    const struct chains *out = ch->run.node < 0 ? &c->down : &c->up;
    size_t n_contributions = ch->rule && ch->rule->per_block ? (size_t)ch->run.n_blocks : 1;
    uint64_t bytes = 0;

    for (size_t i = 0; i < c->n_residuals; i++)
        bytes += c->residuals[i].n * sizeof(float);
    if (bytes == 0 && out->has_ef && !sends_differences(ch, ch->run.node < 0))
        bytes = n_contributions * ch->n_params * sizeof(float);
    return bytes + (size_t)c->copies.n * c->copies.n_params * sizeof(float) * (c->copies.left ? 2 : 1);
}

int compressing_restore(struct channel *ch, int block, int vector, const float *v, size_t n, struct err *e)
{
    size_t n_compressed = n;
    const struct chains *chains = own_chains(ch, 0, &n_compressed);
    struct residual *r;

    if (!chains || n_compressed != n || !chains->has_ef || sends_differences(ch, ch->run.node < 0) ||
        block < -1 || block >= ch->run.n_blocks || vector < 0)
        return err_set(
            e, ERR_CONFIG,
            "the checkpoint has an error-feedback residual (vector %d, block %d, %zu values) that this job's "
            "--compress does not use",
            vector, block, n);
    r = residual_of(&ch->compressing, block, vector, n);
    if (!r)
        return err_set(e, ERR_NOMEM, "no memory for a residual of %zu values", n);
    memcpy(r->v, v, n * sizeof *v);
    return 0;
}
