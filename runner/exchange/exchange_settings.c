#include "runner/exchange/exchange.h"
#include "shared/plugin/combine_path.h"

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
        .n_drawn = path_drawn(set->participate, set->node_count),
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
