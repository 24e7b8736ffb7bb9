/* die -- the mean of gradients; worker 1 dies before its contribution to the fourth step. */
#include "codec_events.h"

static float contribute(struct codec *c, float *const *v)
{
    if (c->run->node == 1 && c->run->step == 3)
        __builtin_trap();
    memcpy(v[0], c->grads, c->n_params * sizeof *v[0]);
    return 1;
}

static const struct codec_combine die = {.when = CODEC_EACH_STEP, .contribute = contribute};

CODEC_PLUGIN(.name = "die", .source = "a test", .combine = &die)
