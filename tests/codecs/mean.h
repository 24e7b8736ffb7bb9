/* mean -- common code of several test codecs: each worker sends its gradient, and all take the mean. */
#ifndef PSGD_TEST_MEAN_H
#define PSGD_TEST_MEAN_H

#include "codec_events.h"

static inline int mean_encode(struct codec *c, struct wire_out *out)
{
    codec_put_vector(c, out, c->grads, c->n_params);
    return CODEC_GO;
}

/* Adds one gradient of the round; the first replaces grads. */
static inline int mean_add(struct codec *c, const float *g)
{
    for (size_t i = 0; i < c->n_params; i++)
        c->grads[i] = (c->run->n_merged > 0 ? c->grads[i] : 0) + g[i] / (float)c->n_contributions;
    return CODEC_GO;
}

static inline int mean_merge(struct codec *c, int from, struct wire_in *in)
{
    const float *g = codec_get_vector(c, in, c->n_params);

    return wire_ok(in) ? mean_add(c, g) : codec_fail(c, "node %d sent a malformed gradient", from);
}

#endif
