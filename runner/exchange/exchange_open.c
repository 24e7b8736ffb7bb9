/* Creates and frees an exchange, by the settings of a job; refuses a codec that does not support the job;
 * foresees its memory. */
#include <stdlib.h>
#include <string.h>

#include "runner/exchange/events.h"
#include "runner/exchange/exchange_private.h"
#include "shared/plugin/codec_load.h"
#include "shared/plugin/codec_options.h"
#include "shared/plugin/combine_path.h"

enum { PEER_STATS_AT_ONCE = 64 };

/* Least bytes in a bucket of the gradient, the size of the first one of PyTorch's DistributedDataParallel.
 * Each bucket is an all-reduce of its own, so smaller ones would wait more often. */
enum { BUCKET = 1 << 20 };

struct exchange_config exchange_config_of(const struct settings *set, int node)
{
    uint64_t rows = (uint64_t)set->steps_per_epoch;
    /* Of a worker, in an epoch; of those that are shared, about. */
    uint64_t own = set->feed == FEED_SHARED ? (rows - 1) / (uint64_t)set->node_count + 1 : rows;
    struct aggregate aggregate = {0};
    struct err e;

    aggregate_parse(&aggregate, set->aggregate, &e); /* settings_check has passed it */
    return (struct exchange_config){
        .options = node < 0 ? set->server_codec_options : set->codec_options,
        .compress = set->compress,
        .compress_down = set->compress_down,
        .node = node,
        .n_workers = set->node_count,
        .n_servers = set->server_count,
        .is_sync = set->sync == SYNC_SSGD,
        .skips_nonfinite = set->on_nonfinite == NONFINITE_SKIPS,
        .goes_on = set->on_node_loss == NODE_LOSS_CONTINUES,
        .min_nodes = set->min_nodes,
        .path = set->path,
        .aggregate = aggregate,
        .overlap = set->overlap,
        .n_drawn = combine_path_drawn(set->participate, set->node_count),
        .clips = set->clip_norm > 0,
        .allreduce = set->allreduce,
        .local_steps = set->local_steps > 0 ? (uint64_t)set->local_steps : own,
        .n_steps = settings_steps(set),
        .seed = set->seed,
        .shares_evaluations = set->target_accuracy > 0 || set->patience > 0 || set->shares_evaluations,
        .target_accuracy = set->target_accuracy,
        .patience = set->patience,
        .bucket = BUCKET / sizeof(float),
    };
}

static int check_config(const struct exchange_config *cfg, const struct codec_job *job, struct err *e)
{
    const struct codec_round *r = codec_more(cfg->plugin)->round;

    if (r && cfg->n_servers > 0 && !r->reply)
        return err_set(e, ERR_CODEC, "codec %s has no server side; leave the parameter servers out",
                       cfg->plugin->name);
    if (codec_more(cfg->plugin)->updates_on_server && cfg->n_servers == 0) {
        err_set(e, ERR_CODEC, "codec %s updates the weights on parameter servers, and the job has none",
                cfg->plugin->name);
        return err_hint(e, "The list of workers names them under \"PS\".");
    }
    return codec_check_limits(cfg->plugin->name, codec_limits(cfg->plugin), job, e);
}

bool exchange_has_local_steps(const struct exchange *x)
{
    return codec_common_of(x->cfg.plugin);
}

/* What the channels do at events: as the codec says, or the path of a rule that combines. */
static int open_rule(struct exchange *x, const struct codec_job *job, struct err *e)
{
    static const struct combine_path *const paths[COMBINE_PATH_KINDS] = {COMBINE_PATHS(COMBINE_PATH_OBJECT)};
    const struct codec_plugin *p = x->cfg.plugin;
    struct combine_path_rule rule;
    int kind;

    if (codec_more(p)->round) {
        x->of_codec = round_rule_of(codec_more(p)->round);
        x->rule = &x->of_codec;
    }
    x->handlers = codec_more(p)->events ? events_handlers(codec_more(p)->events) : round_handlers;
    if (!p->combine)
        return combine_path_check_unused(p->name, x->cfg.path, job, e);
    rule = combine_path_rule_of(p);
    kind = combine_path_choose(&rule, x->cfg.path, job, e);
    if (kind < 0)
        return kind;
    x->path = paths[kind];
    x->rule = x->path->round ? x->path->round(p->combine) : NULL;
    x->tells_norm = whole_is_told(x);
    x->is_late = combine_path_overlaps(&rule, x->cfg.overlap);
    x->handlers = x->rule ? round_handlers : x->path->collectives(p->combine, x->is_late);
    return 0;
}

/* Allocates all statistics in advance, so that no round allocates. Not for an event rule in a large job: it
 * may send to any node, but sends to few. */
static int open_peer_stats(struct exchange *x, struct err *e)
{
    const struct exchange_config *cfg = &x->cfg;
    int n = cfg->n_workers + cfg->n_servers;

    if (peer_stats_open(&x->peer_stats, n, e) < 0 || stall_open(&x->stall, n, e) < 0 ||
        barrier_open(x, e) < 0 || stop_vote_open(x, e) < 0)
        return e->code;
    if (!x->rule && n > PEER_STATS_AT_ONCE)
        return 0;
    for (int node = -1 - cfg->n_servers; node < cfg->n_workers; node++)
        if (exchange_needs_link(x, node) && !peer_stats_make(&x->peer_stats, exchange_slot(x, node)))
            return err_set(e, ERR_NOMEM, "no memory for the traffic statistics of %d nodes", n);
    return 0;
}

int exchange_new(struct exchange **out, const struct exchange_config *cfg, struct err *e)
{
    struct exchange *x = calloc(1, sizeof *x);
    const struct codec_job job = {
        .n_workers = cfg->n_workers,
        .n_servers = cfg->n_servers,
        .n_blocks = cfg->blocks->n_blocks,
        .has_unequal_blocks = !cfg->blocks->is_equal,
        .redundancy = cfg->blocks->redundancy,
        .is_sync = cfg->is_sync,
        .goes_on = cfg->goes_on,
        .aggregate = cfg->aggregate,
        .overlap = cfg->overlap,
        .n_drawn = cfg->n_drawn > 0 ? cfg->n_drawn : cfg->n_workers,
        .clips = cfg->clips,
        .is_compressed = (cfg->compress && cfg->compress[0]) || (cfg->compress_down && cfg->compress_down[0]),
        .compresses_items = chain_pair_sums(cfg->compress, cfg->compress_down, cfg->n_workers)};

    if (!x)
        return err_set(e, ERR_NOMEM, "no memory for the exchange");
    x->cfg = *cfg;
    x->e = e;
    x->n_channels = cfg->node >= 0 && cfg->n_servers > 0 ? cfg->n_servers : 1;
    x->channels = calloc((size_t)x->n_channels, sizeof *x->channels);
    x->watch = cfg->watch ? cfg->watch : &x->own_watch;
    x->watch->time = cfg->time;
    x->watch->process = cfg->process;
    memset(x->watch->spent, 0, sizeof x->watch->spent);
    atomic_init(&x->watch->since, stopwatch_now(x->watch));
    if (!x->channels) {
        err_set(e, ERR_NOMEM, "no memory for the exchange");
        goto fail;
    }
    if (check_config(cfg, &job, e) < 0 || open_rule(x, &job, e) < 0 || open_peer_stats(x, e) < 0)
        goto fail;
    for (int i = 0; i < x->n_channels; i++)
        if (channel_open(x, i) < 0)
            goto fail;
    *out = x;
    return 0;
fail:
    exchange_free(x);
    return e->code;
}

void exchange_free(struct exchange *x)
{
    if (!x)
        return;
    exchange_detach(x);
    for (int i = 0; x->channels && i < x->n_channels; i++)
        channel_clear(&x->channels[i]);
    free(x->channels);
    peer_stats_clear(&x->peer_stats);
    stall_clear(&x->stall);
    barrier_clear(&x->barrier);
    stop_vote_clear(&x->stop_vote);
    free(x);
}

/* The memory of its vectors and messages, which grow with the model. */

/* The codec's own vectors, and those of the host for a rule that combines. */
static double count_numbers(const struct channel *ch)
{
    const struct combining *b = &ch->combining;
    int n_vectors = b->n_rooms + (b->path && b->path->n_later ? b->path->n_later(ch) : 0) +
                    (b->all ? b->n_most * b->n_vectors : 0) + (ch->collecting.sum != NULL);
    double n = (double)n_vectors * (double)ch->n_params;

    for (size_t i = 0; i < ch->n_zeros; i++)
        n += (double)vector_bytes(&ch->zeros[i]) / sizeof(float);
    if (round_agrees(ch)) /* round_undo */
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

        bytes += sizeof(float) * count_numbers(ch) + compressed_bytes(ch);
        if (exchange_has_messages(x) && x->cfg.n_workers > 1)
            bytes += 2 * (double)ch->limit; /* one being written, one being read */
    }
    return bytes;
}
