/* accumulation -- the gradient of a block in several passes (--accumulate), so that the activations of one
 * pass need memory, not those of the block. It is the mean of the passes' gradients, which rules see as one.
 *
 * Compared with one pass over all samples, the gradient differs by the rounding of float32: a sum over the
 * samples is cut into as many sums as there are passes. Only batch_norm differs by more: it normalizes over
 * the samples of a pass, and its running statistics get the mean of those of the passes. Each pass drops
 * other values (dropout). */
#ifndef PSGD_ACCUMULATION_H
#define PSGD_ACCUMULATION_H

#include "nn/net.h"
#include "shared/base/err.h"
#include "shared/job/model_spec.h"
#include "shared/job/settings.h"

struct accumulation {
    int n_passes, batch;              /* samples of a pass */
    size_t n_in, n_labels, n_targets; /* of a sample */
    size_t n_params;
    float *sum; /* (n_params); NULL: one pass */
};

/* ERR_NOMEM. */
int accumulation_open(struct accumulation *a, const struct settings *set, const struct model_spec *m,
                      struct err *e);
void accumulation_close(struct accumulation *a);

/* net_train() for the samples of a block, n_passes times b->n. */
void accumulation_train(struct accumulation *a, struct net *net, const struct net_batch *b,
                        struct net_score *score);

#endif
