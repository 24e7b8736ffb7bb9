/* localsgd -- after `every` local steps, every worker takes the average of all weights:
 *     x <- (1 / n) sum_k x_k
 *
 * Stich, "Local SGD Converges Fast and Communicates Little", ICLR 2019, Algorithm 1. Every worker computes as
 * many samples as the others, so this is fedavg with the paper's equal weights, except with --block-ratio. */
#include "codec.h"

static const struct codec_combine localsgd = {.when = CODEC_EACH_ROUND};

CODEC_PLUGIN(.name = "localsgd", .source = "Stich, ICLR 2019, Algorithm 1",
             .equation = "x <- (1 / n) sum_k x_k", .combine = &localsgd)
