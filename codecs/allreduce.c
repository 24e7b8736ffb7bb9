/* allreduce -- the update of every worker uses the mean gradient of all workers: g <- (1 / n) sum_k g_k
 *
 * Synchronous data-parallel SGD (Chen et al., "Revisiting Distributed Synchronous SGD", 2016), the mean by an
 * all-reduce: by ring 2 (n - 1) / n n_params numbers each way per step, whatever the number of workers
 * (Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", JPDC 2009),
 * and fewer messages for short vectors (Thakur et al., "Optimization of collective communication operations
 * in MPICH", IJHPCA 2005). */
#include "codec.h"

static const struct codec_combine allreduce = {.when = CODEC_EACH_STEP};

CODEC_PLUGIN(.name = "allreduce", .source = "Patarasuk and Yuan 2009; Thakur et al. 2005",
             .equation = "g <- (1 / n) sum_k g_k", .combine = &allreduce,
             .limits = CODEC_NO_SERVERS | CODEC_NO_ASGD | CODEC_NO_REDUNDANCY)
