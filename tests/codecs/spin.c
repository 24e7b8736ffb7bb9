/* spin -- worker 0 never returns from its third step. */
#include "codec.h"

static int spin_on_step(struct codec *c)
{
    while (c->node == 0 && c->step == 3) {
        volatile int busy = 1;

        (void)busy;
    }
    return CODEC_GO;
}

static const struct codec_events spin = {.on_step = spin_on_step};

CODEC_PLUGIN(.name = "spin", .source = "a test", .events = &spin)
