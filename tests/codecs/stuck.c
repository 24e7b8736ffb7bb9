/* stuck -- the mean of changes, of which one call does not return: `at` names it; with `naps` it takes no
 * processor time. */
#include <time.h>

#include "codec_events.h"

enum { AT_OPEN = 1, AT_APPLY, AT_ON_GRADIENT, AT_MODEL };

struct stuck {
    int at, naps;
};

static const struct codec_option options[] = {
    CODEC_OPTION(struct stuck, at, 0, 0, 4, "1 open, 2 apply, 3 on_gradient, 4 model"),
    CODEC_OPTION(struct stuck, naps, 0, 0, 1, "it sleeps"),
    {0},
};

static void pass(const struct codec *c, int at)
{
    const struct stuck *s = c->state;
    volatile int here = s->at == at;

    while (here)
        if (s->naps)
            nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
}

static int stuck_open(struct codec *c)
{
    pass(c, AT_OPEN);
    return CODEC_GO;
}

static int stuck_apply(struct codec *c, const float *const *mean)
{
    pass(c, AT_APPLY);
    for (size_t i = 0; i < c->n_params; i++)
        c->global[i] += mean[0][i];
    return CODEC_GO;
}

static int stuck_on_gradient(struct codec *c)
{
    pass(c, AT_ON_GRADIENT);
    return CODEC_GO;
}

static const float *stuck_model(const struct codec *c)
{
    pass(c, AT_MODEL);
    return c->params;
}

static const struct codec_combine stuck = {
    .when = CODEC_EACH_ROUND, .keeps_global = true, .apply = stuck_apply, .on_gradient = stuck_on_gradient};

CODEC_PLUGIN(.name = "stuck", .source = "a test", .state_size = sizeof(struct stuck), .options = options,
             .combine = &stuck, .open = stuck_open, .more = CODEC_MORE(.model = stuck_model))
