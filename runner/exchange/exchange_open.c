/* exchange_open -- creates an exchange from the settings of a job, and refuses a codec that does not support
 * the job; says which links, messages and memory it needs; frees it. */
#include <stdlib.h>
#include <string.h>

#include "runner/exchange/exchange_private.h"
#include "shared/plugin/codec_layer.h"
#include "shared/plugin/codec_load.h"
#include "shared/plugin/codec_options.h"
#include "shared/plugin/combine_path.h"
#include "shared/records/tensor_file.h"

enum { PEER_STATS_AT_ONCE = 64 };

/* In a larger job workers have only the links that they need, if that is known. As many nodes may share
 * memory (rendezvous.h), which takes a link between any two. */
enum { ALL_LINKED_MAX = 64 };

/* Least bytes in a bucket of the gradient, as many as in the first bucket of PyTorch's
 * DistributedDataParallel. Each bucket is an all-reduce of its own: smaller buckets would wait more often. */
enum { BUCKET = 1 << 20 };

struct exchange_config exchange_config_of(const struct settings *set, int node)
{
    uint64_t rows = (uint64_t)set->steps_per_epoch;
    /* Steps of one worker in an epoch; with --feed shared, about as many. */
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
        .has_trainer = set->trainer[0] != '\0',
        .saves = settings_has_checkpoints(set),
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

static int by_offset(const void *a, const void *b)
{
    const struct codec_layer *x = a, *y = b;

    return (x->offset > y->offset) - (x->offset < y->offset);
}

static const float *first_parameter(const struct tensor_view *t, size_t n)
{
    const float *first = t[0].data;

    for (size_t i = 1; i < n; i++)
        if ((const float *)t[i].data < first)
            first = t[i].data;
    return first;
}

int exchange_list_layers(struct codec_layer **out, const struct tensor_view *t, size_t n, size_t n_trained,
                         struct err *e)
{
    struct codec_layer *layers = calloc(n + 1, sizeof *layers);
    const float *first = first_parameter(t, n);

    *out = layers;
    if (!layers)
        return err_set(e, ERR_NOMEM, "no memory for a list of %zu layers", n);
    for (size_t i = 0; i < n; i++) {
        size_t offset = (size_t)((const float *)t[i].data - first);

        layers[i] = codec_layer_of(t[i].name, t[i].shape, t[i].n_dims, offset, offset >= n_trained);
    }
    qsort(layers, n, sizeof *layers, by_offset);
    return 0;
}

/* A training program has one gradient in each step, and an optimizer of its own. */
static int check_trainer(const struct exchange_config *cfg, struct err *e)
{
    const char *codec = cfg->plugin->name;

    if (codec_more(cfg->plugin)->updates_on_server) {
        err_set(e, ERR_CODEC,
                "codec %s updates with the job's optimizer, on its servers; a training program has its own",
                codec);
        return err_hint(
            e, "--codec doublesqueeze --path servers sends the same gradients, and the program updates.");
    }
    if (cfg->blocks->n_blocks != cfg->n_workers)
        return err_set(
            e, ERR_CODEC,
            "codec %s: a training program has one gradient in each step, and the job has %d blocks "
            "for %d workers",
            codec, cfg->blocks->n_blocks, cfg->n_workers);
    return 0;
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
    if (cfg->has_trainer && check_trainer(cfg, e) < 0)
        return e->code;
    return codec_check_limits(cfg->plugin->name, codec_limits(cfg->plugin), job, e);
}

bool exchange_has_local_steps(const struct exchange *x)
{
    return codec_common_of(x->cfg.plugin);
}

/* Chooses what the channels do at events: what the codec says, or, for a rule that combines, its path. */
static int open_rule(struct exchange *x, const struct codec_job *job, struct err *e)
{
    static const struct combine_path *const paths[COMBINE_PATH_KINDS] = {COMBINE_PATHS(COMBINE_PATH_OBJECT)};
    const struct codec_plugin *p = x->cfg.plugin;
    struct combine_path_rule rule;
    int kind;

    if (codec_more(p)->round) {
        x->of_codec = channel_round_rule(codec_more(p)->round);
        x->rule = &x->of_codec;
    }
    x->handlers = codec_more(p)->events ? channel_event_handlers(codec_more(p)->events) : round_handlers;
    if (!p->combine)
        return combine_path_check_unused(p->name, x->cfg.path, job, e);
    rule = combine_path_rule_of(p);
    kind = combine_path_choose(&rule, x->cfg.path, job, e);
    if (kind < 0)
        return kind;
    x->path = paths[kind];
    x->rule = x->path->round ? x->path->round(p->combine, x->cfg.has_trainer) : NULL;
    x->sends_norm = whole_sends_norm(x);
    x->is_late = combine_path_overlaps(&rule, x->cfg.overlap);
    x->handlers = x->rule ? round_handlers : x->path->collectives(p->combine, x->is_late);
    return 0;
}

/* Makes all statistics in advance, so that no round allocates. An event rule in a large job is an exception,
 * because it may send to any node, but sends to few; so is a path of collectives. */
static int open_peer_stats(struct exchange *x, struct err *e)
{
    const struct exchange_config *cfg = &x->cfg;
    int n = cfg->n_workers + cfg->n_servers;

    stall_open(&x->stall, n);
    if (peer_stats_open(&x->peer_stats, n, e) < 0 || barrier_open(x, e) < 0 || stop_vote_open(x, e) < 0 ||
        finish_vote_open(x, e) < 0 || save_vote_open(x, e) < 0 || test_sum_open(x, e) < 0)
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

void exchange_detach(struct exchange *x)
{
    for (int i = 0; x->channels && i < x->n_channels; i++) {
        struct channel *ch = &x->channels[i];

        round_clear(ch);
        whole_clear(ch);
        mesh_buf_put(ch->draft);
        ch->draft = NULL;
    }
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
    finish_vote_clear(&x->finish_vote);
    save_vote_clear(&x->save_vote);
    test_sum_clear(&x->test_sum);
    free(x->named);
    free(x->links);
    free(x);
}

/* What it needs of the mesh and of shared memory. */

struct exchange_range exchange_range(const struct exchange *x)
{
    const struct channel *ch = &x->channels[0];

    return x->cfg.node < 0 ? (struct exchange_range){(size_t)(ch->codec.params - x->cfg.params), ch->n_params}
                           : (struct exchange_range){0, x->cfg.n_params};
}

size_t exchange_limit(const struct exchange *x)
{
    const size_t of_host[] = {agreement_bytes(&x->channels[0].round.agreement),
                              barrier_bytes(x),
                              STOP_VOTE_BYTES,
                              whole_bytes(x, WHOLE_MEASURES),
                              whole_bytes(x, WHOLE_NORM),
                              test_sum_bytes(x)};
    size_t limit = 0;

    for (size_t i = 0; i < sizeof of_host / sizeof *of_host; i++)
        if (of_host[i] > limit)
            limit = of_host[i];
    for (int i = 0; i < x->n_channels; i++)
        if (x->channels[i].limit > limit)
            limit = x->channels[i].limit;
    return limit;
}

/* The links that a rule names are those of its messages: its collectives need others. */
static bool names_links(const struct exchange *x)
{
    return x->named && !exchange_collects(x);
}

/* Can all workers end as soon as one of them is lost, and is it known who sends to whom? All-reduces of a few
 * workers on one machine go through memory that any two of them share. */
static bool can_have_few_links(const struct exchange *x, bool is_crowded)
{
    if (x->cfg.n_servers > 0 || !x->cfg.is_sync || x->cfg.goes_on)
        return false;
    return names_links(x) || (x->path && x->path->link && (x->cfg.n_workers > ALL_LINKED_MAX || is_crowded));
}

/* Does worker 0 collect what the others vote, or their sums, and so need a link to each? (stop_vote.h) */
static bool has_votes(const struct exchange *x)
{
    return x->cfg.shares_evaluations || x->cfg.has_trainer || x->cfg.saves || test_sum_is_used(x);
}

int exchange_choose_links(struct exchange *x, const int *machines, bool is_crowded, struct err *e)
{
    int n = x->cfg.n_workers, me = x->cfg.node;

    x->e = e;
    if (!can_have_few_links(x, is_crowded))
        return CODEC_GO;
    x->links = calloc((size_t)n, sizeof *x->links);
    if (!x->links)
        return err_set(e, ERR_NOMEM, "no memory for the links of %d workers", n);
    for (int k = 0; k < n; k++)
        x->links[k] = (has_votes(x) && (k == 0 || me == 0)) || (names_links(x) && x->named[k]);
    return names_links(x) ? CODEC_GO : x->path->link(&x->channels[0], machines, x->links);
}

bool exchange_has_few_links(const struct exchange *x)
{
    return x->links && exchange_collects(x);
}

bool exchange_needs_link(const struct exchange *x, int node)
{
    bool is_star = codec_is_star(x->cfg.plugin, x->cfg.n_servers);

    if (node == x->cfg.node || node >= x->cfg.n_workers || node == -1 || node < -1 - x->cfg.n_servers)
        return false;
    if (node < 0 && x->cfg.node < 0 && whole_links_servers(x))
        return true;
    if (x->links)
        return x->links[node];
    return is_star ? (node < 0) != (x->cfg.node < 0) : true;
}

bool exchange_links_servers(const struct exchange *x)
{
    return whole_links_servers(x);
}

bool exchange_never_waits(const struct exchange *x)
{
    return x->rule && !x->cfg.is_sync;
}

void exchange_attach(struct exchange *x, struct mesh *m, const int *machines)
{
    x->mesh = m;
    for (int i = 0; i < x->n_channels; i++)
        collecting_attach(&x->channels[i], m, machines);
}

bool exchange_has_messages(const struct exchange *x)
{
    const struct codec_events *events = codec_more(x->cfg.plugin)->events;

    /* Servers may have another codec. */
    return x->cfg.n_servers > 0 || x->rule || (events && events->on_message);
}

bool exchange_collects(const struct exchange *x)
{
    return x->cfg.n_servers == 0 && x->cfg.n_workers > 1 && x->handlers.on_collective;
}

bool exchange_has_levels(const struct exchange *x)
{
    return x->path && x->path->has_levels;
}

bool exchange_shares_params(const struct exchange *x)
{
    const struct channel *ch = &x->channels[0];
    const struct codec_combine *r = ch->combining.rule;

    return r && !x->is_late && r->when == CODEC_EACH_ROUND && !r->contribute && !r->contributes_change &&
           !r->apply && !ch->codec.global && exchange_weights_are_equal(x);
}

int exchange_share(struct exchange *x, struct shm_group *g, struct err *e)
{
    struct channel *ch = &x->channels[0]; /* there are no servers */

    if (g && shm_group_n(g) == x->cfg.n_workers && exchange_shares_params(x))
        x->cfg.params = ch->codec.params = shm_group_in(g);
    else if (g)
        x->cfg.grads = ch->codec.grads = shm_group_in(g);
    return collecting_share(ch, g, e);
}

/* The memory of its vectors and messages, which grows with the model. */

/* Floats of the codec's own vectors, and of the host's for a rule that combines. */
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

/* Bytes of residuals, copies, items, and decoded vectors, of messages sent and of the one being read. */
static double compressed_bytes(const struct channel *ch)
{
    const struct compressing *c = &ch->compressing;
    const struct chains *ways[] = {&c->up, &c->down};
    double bytes = (double)compressing_saved_bytes(ch);

    for (int k = 0; k < 2; k++)
        for (int i = 0; i < ways[k]->n_chains; i++)
            bytes += ways[k]->of[i].sent ? (double)(ways[k]->of[i].n * sizeof(float)) : 0;
    if (c->copies.n > 0) /* copies.work; a worker also decodes into a vector */
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
