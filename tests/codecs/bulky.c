/* The state size exceeds any memory, as after an underflow below zero. */
#include "codec_events.h"

static int bulky_on_step(struct codec *c)
{
    (void)c;
    return CODEC_GO;
}

static const struct codec_events bulky = {.on_step = bulky_on_step};

CODEC_PLUGIN(.name = "bulky", .state_size = SIZE_MAX, .more = CODEC_MORE(.events = &bulky))
