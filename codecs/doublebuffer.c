/* doublebuffer -- the all-reduce of one step's gradient runs while the next gradient is computed, so the
 * update is one step late, equally on every worker:
 *     w_1 = w_0;   w_{t+1} = w_t - lr (1 / n) sum_k g_k(w_{t-1})
 *
 * This is the double buffering of distributed trainers whose network is slower than their processor
 * (ChainerMN's double_buffering optimizer: Akiba, Fukuda and Suzuki, "ChainerMN: Scalable Distributed Deep
 * Learning Framework", 2017), and `allreduce` with --overlap 1. The price is a staleness of one step; the
 * gradient of the last step is not used. */
#include "codec_events.h"

static const struct codec_combine doublebuffer = {.when = CODEC_EACH_STEP};

CODEC_PLUGIN(.name = "doublebuffer", .source = "Akiba, Fukuda and Suzuki 2017",
             .equation = "w_{t+1} <- w_t - eta (1 / n) sum_k g_k(w_{t-1})", .combine = &doublebuffer,
             .limits = CODEC_NO_SERVERS | CODEC_NO_ASGD | CODEC_NO_REDUNDANCY,
             .more = CODEC_MORE(.overlaps = true))
