/* call_exit -- calls exit(0) in its third step, as if it had succeeded. */
#include <stdlib.h>

#include "codec_events.h"

static int call_exit_on_step(struct codec *c)
{
    if (c->run->step == 3)
        exit(0);
    return CODEC_GO;
}

static const struct codec_events call_exit = {.on_step = call_exit_on_step};

CODEC_PLUGIN(.name = "call_exit", .source = "a test", .more = CODEC_MORE(.events = &call_exit))
