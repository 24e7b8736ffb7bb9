#include "runner/exchange/whole.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "nn/optimizer.h"
#include "runner/exchange/exchange_private.h"

/* Does the update depend on the norm of the gradient? It must be skipped on all servers or on none. */
static bool norm_decides(const struct exchange_config *cfg)
{
    return codec_more(cfg->plugin)->updates_on_server && (cfg->clips || cfg->skips_nonfinite);
}

bool whole_needs(const struct exchange *x, enum whole_kind kind)
{
    const struct exchange_config *cfg = &x->cfg;

    if (cfg->n_servers < 2 || !cfg->is_sync)
        return false;
    return kind == WHOLE_MEASURES ? cfg->plugin->combine && aggregate_compares(&cfg->aggregate)
                                  : norm_decides(cfg) && !codec_more(cfg->plugin)->events;
}

bool whole_links_servers(const struct exchange *x)
{
    return whole_needs(x, WHOLE_MEASURES) || whole_needs(x, WHOLE_NORM);
}

bool whole_sends_norm(const struct exchange *x)
{
    const struct exchange_config *cfg = &x->cfg;

    return cfg->n_servers > 1 && !cfg->is_sync && cfg->plugin->combine && norm_decides(cfg);
}

/* The number of values in the lower triangle of a measure; a measure is symmetric, so only that is sent. */
static size_t triangle(size_t n)
{
    return n * (n + 1) / 2;
}

static int n_vectors(const struct exchange *x)
{
    int n = x->cfg.plugin->combine ? x->cfg.plugin->combine->n_vectors : 0;

    return n > 0 ? n : 1;
}

/* Bytes of a part with the measures of n contributions: one byte for each worker, 1 if its contribution is
 * among them; then the triangle of each vector of a contribution, row by row. */
static size_t measure_bytes(const struct exchange *x, size_t n)
{
    return (size_t)x->cfg.n_workers + (size_t)n_vectors(x) * triangle(n) * sizeof(double);
}

size_t whole_bytes(const struct exchange *x, enum whole_kind kind)
{
    if (!whole_needs(x, kind))
        return 0;
    return kind == WHOLE_MEASURES ? measure_bytes(x, (size_t)x->cfg.n_workers) : sizeof(double);
}

int whole_open(struct channel *ch)
{
    const struct exchange_config *cfg = &ch->x->cfg;

    if (cfg->node >= 0 || !whole_links_servers(ch->x))
        return CODEC_GO;
    ch->whole.parts = calloc((size_t)cfg->n_servers * WHOLE_KINDS, sizeof(struct mesh_buf *));
    ch->whole.common = calloc((size_t)cfg->n_workers, sizeof *ch->whole.common);
    ch->whole.ranks = calloc((size_t)cfg->n_workers, sizeof *ch->whole.ranks);
    return ch->whole.parts && ch->whole.common && ch->whole.ranks
               ? CODEC_GO
               : err_set(ch->x->e, ERR_NOMEM, "no memory for the parts of %d servers", cfg->n_servers);
}

static struct mesh_buf **part_of(const struct channel *ch, int server, enum whole_kind kind)
{
    return &ch->whole.parts[(FIRST_SERVER - server) * WHOLE_KINDS + (int)kind];
}

static int last_server(const struct channel *ch)
{
    return FIRST_SERVER - ch->x->cfg.n_servers + 1;
}

static void drop_parts(struct channel *ch, bool counts)
{
    for (int s = FIRST_SERVER; ch->whole.parts && s >= last_server(ch); s--)
        for (int k = 0; k < WHOLE_KINDS; k++) {
            struct mesh_buf **b = part_of(ch, s, (enum whole_kind)k);

            if (*b && counts && s != ch->run.node)
                channel_received(ch, s, (*b)->len);
            mesh_buf_put(*b);
            *b = NULL;
        }
}

void whole_clear(struct channel *ch)
{
    drop_parts(ch, false);
    free(ch->whole.parts);
    free(ch->whole.common);
    free(ch->whole.ranks);
    ch->whole = (struct whole){0};
}

void whole_end_round(struct channel *ch)
{
    drop_parts(ch, true);
    ch->whole.has_applied = ch->whole.needs_update = false;
}

int whole_awaits(const struct channel *ch)
{
    for (int k = 0; ch->whole.parts && k < WHOLE_KINDS; k++) {
        bool is_sent = *part_of(ch, ch->run.node, (enum whole_kind)k);

        for (int s = FIRST_SERVER; is_sent && s >= last_server(ch); s--)
            if (!*part_of(ch, s, (enum whole_kind)k))
                return s;
    }
    return 0;
}

static void put_bytes(struct mesh_buf *b, const void *bytes, size_t len)
{
    memcpy(b->bytes + b->len, bytes, len);
    b->len += len;
}

/* The lower triangle of each vector's measure. */
static void write_measures(struct channel *ch, struct mesh_buf *b)
{
    const struct combining *c = &ch->combining;

    memset(b->bytes, 0, (size_t)ch->codec.n_workers);
    for (int i = 0; i < c->n_all; i++)
        b->bytes[c->senders[i]] = 1;
    b->len = (size_t)ch->codec.n_workers;
    for (int v = 0; c->n_all > 0 && v < c->n_vectors; v++) {
        combining_measure(ch, v);
        for (size_t row = 0; row < (size_t)c->n_all; row++)
            put_bytes(b, c->work + row * (size_t)c->n_all, (row + 1) * sizeof(double));
    }
}

/* The norm is NaN also if a running statistic is not finite: then the whole update is left out. */
static void write_norm(struct channel *ch, struct mesh_buf *b)
{
    const float *grads = ch->codec.grads;
    double norm = gradient_norm(grads, ch->n_trained), square = norm * norm;

    if (!gradient_is_finite(grads + ch->n_trained, ch->n_params - ch->n_trained))
        square = NAN;
    put_bytes(b, &square, sizeof square);
}

static int send_part(struct channel *ch, enum whole_kind kind)
{
    static void (*const write[WHOLE_KINDS])(struct channel *, struct mesh_buf *) = {
        [WHOLE_MEASURES] = write_measures, [WHOLE_NORM] = write_norm};
    struct mesh_head h = {.kind = FRAME_PART, .index = (uint32_t)kind, .round = ch->run.round};
    struct mesh_buf *b = mesh_buf_take(ch->x->mesh);
    enum phase last;

    if (!b)
        return err_set(ch->x->e, ERR_NOMEM, "no memory for a message");
    *part_of(ch, ch->run.node, kind) = b;
    last = phase_enter(ch->x->watch, PHASE_APPLY);
    write[kind](ch, b);
    phase_enter(ch->x->watch, last);
    compressing_begin_writing(&ch->compressing); /* it compresses nothing: resets saved_out */
    for (h.peer = FIRST_SERVER; h.peer >= last_server(ch); h.peer--) {
        h.channel = (uint16_t)(FIRST_SERVER - h.peer);
        if (h.peer != ch->run.node && channel_send(ch, &h, b, 0) < 0)
            return ch->x->e->code;
    }
    return CODEC_GO;
}

static void find_common(struct channel *ch)
{
    struct whole *w = &ch->whole;

    w->n_common = 0;
    for (int k = 0; k < ch->codec.n_workers; k++) {
        bool is_common = true;

        for (int s = FIRST_SERVER; s >= last_server(ch); s--)
            is_common &= (*part_of(ch, s, WHOLE_MEASURES))->bytes[k];
        if (is_common)
            w->common[w->n_common++] = k;
    }
}

int whole_gather(struct channel *ch, enum whole_kind kind)
{
    if (!*part_of(ch, ch->run.node, kind) && send_part(ch, kind) < 0)
        return ch->x->e->code;
    if (whole_awaits(ch))
        return CODEC_WAIT;
    if (kind == WHOLE_MEASURES)
        find_common(ch);
    return CODEC_GO;
}

static bool is_well_formed(const struct channel *ch, enum whole_kind kind, const struct mesh_buf *b)
{
    size_t n = 0;

    if (kind == WHOLE_NORM)
        return b->len == sizeof(double);
    if (b->len < (size_t)ch->codec.n_workers)
        return false;
    for (int k = 0; k < ch->codec.n_workers; k++) {
        if (b->bytes[k] > 1)
            return false;
        n += b->bytes[k];
    }
    return b->len == measure_bytes(ch->x, n);
}

/* No server is a round ahead of another: workers begin the next round when all servers have replied. */
int whole_on_part(struct channel *ch, const struct mesh_head *h, struct mesh_buf *b)
{
    enum whole_kind kind = (enum whole_kind)h->index;

    if (h->index < WHOLE_KINDS && whole_needs(ch->x, kind) && h->round == ch->run.round &&
        !*part_of(ch, h->peer, kind) && is_well_formed(ch, kind, b)) {
        *part_of(ch, h->peer, kind) = b;
        return CODEC_GO;
    }
    mesh_buf_put(b);
    return channel_fail(ch, "node %d, a server, sent a malformed part of a sum in round %llu", h->peer,
                        (unsigned long long)ch->run.round + 1);
}

/* Value (a, b), b <= a, of the measure of vector number `vector` in a part of n contributions. */
static double value_at(const struct channel *ch, const struct mesh_buf *part, size_t n, int vector, size_t a,
                       size_t b)
{
    size_t at = (size_t)vector * triangle(n) + triangle(a) + b;
    double value;

    memcpy(&value, part->bytes + (size_t)ch->codec.n_workers + at * sizeof value, sizeof value);
    return value;
}

/* The place of each worker's contribution among those of the part. Returns their number. */
static size_t rank(const struct channel *ch, const struct mesh_buf *part)
{
    size_t n = 0;

    for (int k = 0; k < ch->codec.n_workers; k++) {
        ch->whole.ranks[k] = n;
        n += part->bytes[k];
    }
    return n;
}

void whole_measure(const struct channel *ch, int vector, double *measure)
{
    const struct whole *w = &ch->whole;
    size_t n = (size_t)w->n_common;

    memset(measure, 0, n * n * sizeof *measure);
    for (int s = FIRST_SERVER; s >= last_server(ch); s--) {
        const struct mesh_buf *part = *part_of(ch, s, WHOLE_MEASURES);
        size_t n_there = rank(ch, part);

        for (size_t i = 0; i < n; i++)
            for (size_t j = 0; j <= i; j++)
                measure[i * n + j] += value_at(ch, part, n_there, vector, w->ranks[w->common[i]],
                                               w->ranks[w->common[j]]);
    }
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < i; j++)
            measure[j * n + i] = measure[i * n + j];
}

double whole_norm(const struct channel *ch)
{
    double sum = 0;

    for (int s = FIRST_SERVER; s >= last_server(ch); s--) {
        double square;

        memcpy(&square, (*part_of(ch, s, WHOLE_NORM))->bytes, sizeof square);
        sum += square;
    }
    return sqrt(sum);
}
