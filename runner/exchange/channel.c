#include "runner/exchange/exchange_private.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "shared/plugin/codec_options.h"

void channel_begin_local(struct channel *ch)
{
    ch->codec.samples = 0;
    ch->codec.n_local = 0;
    ch->codec.lr_sum = 0;
}

/* The job's round is done when every channel's is. */
void channel_round_done(struct channel *ch)
{
    struct exchange *x = ch->x;

    ch->run.round++;
    if (++x->n_channels_done < x->n_channels)
        return;
    x->n_channels_done = 0;
    x->n_rounds++;
    if (x->watch->tracer)
        x->watch->tracer->round = x->n_rounds + 1;
    peer_stats_close_round(&x->peer_stats);
}

/* The parts of the model's layers that lie in [lo, hi). */
static int cut_layers(struct channel *ch, size_t lo, size_t hi)
{
    const struct exchange_config *cfg = &ch->x->cfg;
    int n = 0;

    ch->layers = calloc((size_t)cfg->n_layers + 1, sizeof *ch->layers);
    if (!ch->layers)
        return -1;
    for (int i = 0; i < cfg->n_layers; i++) {
        const struct codec_layer *whole = &cfg->layers[i];
        size_t from = whole->offset > lo ? whole->offset : lo;
        size_t to = whole->offset + whole->n < hi ? whole->offset + whole->n : hi;
        struct codec_layer *own = &ch->layers[n];

        if (from >= to)
            continue;
        *own = *whole;
        own->offset = from - lo;
        own->n = to - from;
        if (own->n < whole->n) {
            own->n_dims = 1;
            own->shape[0] = own->n;
        }
        n++;
    }
    ch->n_layers = n;
    ch->run.layers = ch->layers;
    while (n > 0 && ch->layers[n - 1].offset >= ch->codec.n_params && ch->codec.n_params < ch->n_params)
        n--;
    ch->run.n_layers = n;
    return 0;
}

/* Parameters in the range that are not running statistics: a rule that combines sees no others. */
static size_t trained_of(const struct exchange_config *cfg, size_t lo, size_t hi)
{
    size_t n_trained = cfg->n_params - cfg->n_statistics, end = n_trained < hi ? n_trained : hi;

    return end > lo ? end - lo : 0;
}

/* Where the range of server k, counted from 0, begins; without servers the only range is all. */
static size_t range_begin(const struct exchange_config *cfg, int k)
{
    if (cfg->ranges)
        return cfg->ranges[k];
    return collective_slice(cfg->n_params, k, cfg->n_servers > 0 ? cfg->n_servers : 1);
}

static size_t message_bytes(struct channel *ch)
{
    enum phase last = phase_call(ch->x->watch, PHASE_APPLY, "message_bytes");
    size_t n = codec_more(ch->x->cfg.plugin)->message_bytes(&ch->codec);

    phase_enter(ch->x->watch, last);
    return n;
}

int channel_open(struct exchange *x, int id)
{
    const struct exchange_config *cfg = &x->cfg;
    const struct codec_plugin *p = cfg->plugin;
    struct channel *ch = &x->channels[id];
    int range = cfg->node < 0 ? -2 - cfg->node : id;
    size_t lo = range_begin(cfg, range), hi = range_begin(cfg, range + 1);
    enum phase last;
    int rc;

    ch->x = x;
    ch->n_params = hi - lo;
    ch->n_trained = trained_of(cfg, lo, hi);
    ch->rule = x->rule;
    ch->id = (uint16_t)range;
    ch->server = cfg->node >= 0 && cfg->n_servers > 0 ? -2 - id : 0;
    ch->wake_at = INFINITY;
    ch->awaited = -1;
    ch->codec = (struct codec){.n_workers = cfg->n_workers,
                               .is_sync = cfg->is_sync,
                               .n_params = p->combine ? ch->n_trained : ch->n_params,
                               .params = cfg->params + lo,
                               .grads = cfg->grads + lo,
                               .fail_with = channel_host_fail,
                               .run = &ch->run};
    ch->run = (struct codec_run){.node = cfg->node,
                                 .n_servers = cfg->n_servers,
                                 .server = cfg->n_servers > 0 ? -2 - range : 0,
                                 .n_blocks = cfg->blocks->n_blocks,
                                 .redundancy = cfg->blocks->redundancy,
                                 .n_steps = cfg->n_steps,
                                 .block = -1,
                                 .loss = NAN,
                                 .evaluation = {.loss = NAN, .accuracy = NAN},
                                 .host = &channel_host,
                                 .lr_factor = 1};
    rng_init(&ch->rng, cfg->seed, (uint64_t)(cfg->node + 65536), (uint64_t)range);
    ch->codec.state = calloc(1, p->state_size ? p->state_size : 1);
    ch->zeros = calloc(CHANNEL_ZEROS_MAX, sizeof *ch->zeros);
    if (!ch->codec.state || !ch->zeros || cut_layers(ch, lo, hi) < 0 ||
        (p->combine && cfg->n_drawn > 0 && cfg->n_drawn < cfg->n_workers &&
         !(ch->draw = draw_new(cfg->n_workers, cfg->n_drawn, cfg->seed))))
        return err_set(x->e, ERR_NOMEM, "no memory for codec %s", p->name);
    if (codec_options_set(&(struct codec_options){p->options, ch->codec.state}, 1, cfg->options, x->e) < 0)
        return err_at(x->e, "codec %s", p->name);
    ch->limit = p->combine                     ? combining_limit(p->combine, ch->n_params)
                : codec_more(p)->message_bytes ? message_bytes(ch)
                                               : 64 + 4 * ch->codec.n_params;
    if (compressing_open(ch, x->e) < 0)
        return x->e->code;
    if (ch->rule ? round_open(ch) < 0 : collecting_open(ch, x->e) < 0)
        return x->e->code;
    if (whole_open(ch) < 0 || combining_open(ch, x->e) < 0)
        return x->e->code;
    channel_before_call(ch);
    for (const size_t *at = p->vectors; at && *at != SIZE_MAX; at++)
        if (channel_host.zeros(&ch->codec, (float **)(void *)((char *)ch->codec.state + *at),
                               ch->codec.n_params) < 0)
            return x->e->code;
    if (!p->open)
        return CODEC_GO;
    last = phase_call(ch->x->watch, PHASE_APPLY, "open");
    rc = channel_after_call(ch, "open", p->open(&ch->codec), false);
    phase_enter(ch->x->watch, last);
    return rc;
}

void channel_clear(struct channel *ch)
{
    for (size_t z = 0; z < ch->n_zeros; z++)
        free(ch->zeros[z].v);
    free(ch->zeros);
    free(ch->layers);
    reducing_clear(&ch->reducing);
    compressing_clear(&ch->compressing);
    combining_clear(&ch->combining);
    whole_clear(ch);
    draw_free(ch->draw);
    collecting_clear(ch);
    free(ch->codec.state);
}
