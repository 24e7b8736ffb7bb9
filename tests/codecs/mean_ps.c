/* mean_ps -- gradients go to the servers, their mean comes back, both compressed if anybody wishes. */
#include "mean.h"

static int mean_adopt(struct codec *c, struct wire_in *in)
{
    return mean_take(c, c->grads, in);
}

static const struct codec_round mean = {.before_update = true,
                                        .encode = mean_encode,
                                        .merge = mean_merge,
                                        .reply = mean_encode,
                                        .adopt = mean_adopt};

CODEC_PLUGIN(.name = "mean_ps", .source = "a test", .round = &mean, .compression = CODEC_LOSSY)
