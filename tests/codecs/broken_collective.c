/* broken_collective -- each worker chooses a parameter index, and all set the gradients of these parameters
 * to 0: a collective transfers the indices, which are used without a check. */
#include "codec_events.h"

struct broken {
    float *mine, *named[2]; /* (n_workers); named[] alternate */
};

static int broken_open(struct codec *c)
{
    struct broken *b = c->state;
    size_t n = (size_t)c->n_workers;

    if (codec_zeros(c, &b->mine, n) < 0 || codec_zeros(c, &b->named[0], n) < 0)
        return -1;
    return codec_zeros(c, &b->named[1], n);
}

static int broken_on_grad(struct codec *c)
{
    const struct broken *b = c->state;

    b->mine[c->run->node] = (float)(c->run->step * 7 % c->n_params);
    return codec_all_gather(c, b->mine, b->named[c->run->step % 2], (size_t)c->n_workers);
}

static int broken_on_collective(struct codec *c)
{
    const struct broken *b = c->state;

    for (int k = 0; k < c->n_workers; k++)
        c->grads[(long)b->named[c->run->step % 2][k]] = 0;
    return CODEC_GO;
}

static const struct codec_events broken = {.on_grad = broken_on_grad, .on_collective = broken_on_collective};

CODEC_PLUGIN(.name = "broken_collective", .source = "a test", .state_size = sizeof(struct broken),
             .open = broken_open, .limits = CODEC_NO_SERVERS | CODEC_NO_ASGD,
             .more = CODEC_MORE(.events = &broken))
