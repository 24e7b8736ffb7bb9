/* leave -- calls exit(0) in its third step, as if it had succeeded. */
#include <stdlib.h>

#include "codec_events.h"

static int leave_on_step(struct codec *c)
{
    if (c->run->step == 3)
        exit(0);
    return CODEC_GO;
}

static const struct codec_events leave = {.on_step = leave_on_step};

CODEC_PLUGIN(.name = "leave", .source = "a test", .more = CODEC_MORE(.events = &leave))
