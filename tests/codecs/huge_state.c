/* huge_state -- its state_size exceeds any memory, as after an underflow below zero. */
#include "codec_events.h"

static int huge_state_on_step(struct codec *c)
{
    (void)c;
    return CODEC_GO;
}

static const struct codec_events huge_state = {.on_step = huge_state_on_step};

CODEC_PLUGIN(.name = "huge_state", .state_size = SIZE_MAX, .more = CODEC_MORE(.events = &huge_state))
