/* fedavg -- after a round of local steps, every worker takes the sample-weighted average of all weights:
 *     w <- sum_k (n_k / n) w_k
 *
 * McMahan et al., "Communication-Efficient Learning of Deep Networks from Decentralized Data", AISTATS
 * 2017, Algorithm 1, with every client in every round (C = 1).
 *
 * In asgd a worker whose contribution has not arrived counts with the server's present weights: a server
 * moves its weights by 1 / n_workers towards each contribution as it arrives. The paper has synchronous
 * rounds only. */
#include "codec.h"

static const struct codec_combine fedavg = {.when = CODEC_EACH_ROUND};

CODEC_PLUGIN(.name = "fedavg", .source = "McMahan et al., AISTATS 2017, Algorithm 1",
             .equation = "w <- sum_k (n_k / n) w_k", .combine = &fedavg)
