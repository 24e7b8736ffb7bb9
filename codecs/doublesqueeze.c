/* doublesqueeze -- workers send their gradients, servers reply with the mean, and each adds what
 * compression has lost of a message to its next message:
 *     worker k:  v_k = g_k + d_k;                   sends Q(v_k);    d_k <- v_k - Q(v_k)
 *     server:    v = (1 / n) sum_k Q(v_k) + d;      replies Q(v);    d <- v - Q(v)
 *     worker:    x <- x - eta Q(v)
 *
 * Tang, Yu, Lian, Zhang and Liu, "DoubleSqueeze: Parallel Stochastic Gradient Descent with Double-pass
 * Error-Compensated Compression", ICML 2019, Algorithm 1. Q is the compression that --compress sets for
 * workers and --compress-down for servers; both keep their d with ef=true. Deviations: the step is that of
 * the job's optimizer, on the workers; each of several servers compresses its range by itself. Without
 * servers each worker computes the mean of the Q(v_k) itself, as in plain, and there is no second pass.
 *
 * In asgd a server would reply to some workers with the mean of some gradients: workers would no longer
 * update by the same vector, and nothing would make their weights equal again. */
#include "codec.h"

static const struct codec_combine doublesqueeze = {.when = CODEC_EACH_STEP};

CODEC_PLUGIN(.name = "doublesqueeze", .source = "Tang et al., ICML 2019, Algorithm 1",
             .equation = "g <- Q(mean_k Q(g_k + d_k) + d); d_k, d: what Q lost of the last message",
             .combine = &doublesqueeze, .limits = CODEC_NO_ASGD)
