/* ps -- workers send their gradients, the server updates the weights and sends them back:
 *     ssgd:  x <- x - eta (1 / n) sum_k g_k, when all n are received
 *     asgd:  x <- x - eta g_k, as each is received
 *
 * Li et al., "Scaling Distributed Machine Learning with the Parameter Server", OSDI 2014, Algorithm 1
 * (ssgd); Dean et al., "Large Scale Distributed Deep Networks", NIPS 2012, section 4.1, with one step
 * between fetch and push (asgd). The update is a step of the job's optimizer, which runs on the server
 * only. No gradient is too stale to be used; the server's codec.csv has a row "staleness" for each. */
#include "codec_events.h"

static const struct codec_combine ps = {.when = CODEC_EACH_STEP};

CODEC_PLUGIN(.name = "ps", .source = "Li et al., OSDI 2014, Algorithm 1; Dean et al., NIPS 2012",
             .equation = "x <- x - eta (1 / n) sum_k g_k; asgd: x <- x - eta g_k", .combine = &ps,
             .more = CODEC_MORE(.updates_on_server = true))
