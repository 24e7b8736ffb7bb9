/* ps_sum -- as ps, by the sum of the workers' gradients instead of their mean:
 *     ssgd:  x <- x - eta sum_k g_k, when all n are received
 *     asgd:  x <- x - eta g_k, as each is received: the same as ps
 *
 * The parameter server with queues of Ray's and Lithops' examples, which adds up the gradients of all workers
 * and takes one step by the sum: n times the step of ps, so a rate that suits one worker is too high for
 * many. Running statistics (batch_norm) are averaged. */
#include "codec_events.h"

static const struct codec_combine ps_sum = {.when = CODEC_EACH_STEP, .reduction = CODEC_SUM};

CODEC_PLUGIN(.name = "ps_sum", .source = "the parameter server of Ray's and Lithops' examples",
             .equation = "x <- x - eta sum_k g_k; asgd: x <- x - eta g_k", .combine = &ps_sum,
             .more = CODEC_MORE(.updates_on_server = true))
