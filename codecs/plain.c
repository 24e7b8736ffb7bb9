/* plain -- the update of every worker uses the mean gradient of all blocks:
 *     g <- (1 / n_blocks) sum_b g_b
 *
 * Synchronous data-parallel SGD without a server (Chen et al., "Revisiting Distributed Synchronous SGD",
 * 2016, Algorithm 1 with no backup workers; every worker computes the mean). Unlike allreduce it allows
 * redundancy: with r holders of each block the first contribution counts, so up to r - 1 slow holders delay
 * no worker. In asgd the mean is over the contributions that have arrived, this worker's own among them,
 * however old. */
#include "codec.h"

static const struct codec_combine plain = {.when = CODEC_EACH_STEP};

CODEC_PLUGIN(.name = "plain", .source = "Chen et al. 2016, Algorithm 1, without servers",
             .equation = "g <- (1 / n_blocks) sum_b g_b", .combine = &plain, .limits = CODEC_NO_SERVERS)
