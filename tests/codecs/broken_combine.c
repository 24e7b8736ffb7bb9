/* What a rule that combines may not do, one at a time. */
#include <math.h>

#include "codec.h"

struct broken {
    int what;
};
enum { PARAMS, WEIGHT, NEGATIVE, GLOBAL, PULL };

static const struct codec_option options[] = {
    CODEC_OPTION_CHOICE(struct broken, what, "params|weight|negative|global|pull", "what it does wrong"),
    {0},
};

static float contribute(struct codec *c, float *const *v)
{
    const struct broken *b = c->state;

    for (size_t i = 0; i < c->n_params; i++)
        v[0][i] = v[1][i] = c->params[i] - c->global[i];
    if (b->what == PARAMS)
        c->params[0] += 1;
    return b->what == WEIGHT ? NAN : b->what == NEGATIVE ? -1 : 1;
}

static int apply(struct codec *c, const float *const *v)
{
    const struct broken *b = c->state;

    for (size_t i = 0; i < c->n_params; i++)
        c->global[i] += v[0][i];
    if (b->what == GLOBAL)
        c->params[c->n_params - 1] = 0;
    return CODEC_GO;
}

static int on_gradient(struct codec *c)
{
    const struct broken *b = c->state;

    if (b->what == PULL)
        c->params[0] -= c->grads[0];
    return CODEC_GO;
}

static const struct codec_combine broken = {.when = CODEC_EACH_ROUND,
                                            .n_vectors = 2,
                                            .keeps_global = true,
                                            .contribute = contribute,
                                            .apply = apply,
                                            .on_gradient = on_gradient};

CODEC_PLUGIN(.name = "broken_combine", .source = "a test", .state_size = sizeof(struct broken),
             .options = options, .combine = &broken)
