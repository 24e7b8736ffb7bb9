/* spin -- worker 0 never returns from its third step; it naps there, because the tests share processors. */
#include <time.h>

#include "codec_events.h"

static int spin_on_step(struct codec *c)
{
    while (c->run->node == 0 && c->run->step == 3)
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    return CODEC_GO;
}

static const struct codec_events spin = {.on_step = spin_on_step};

CODEC_PLUGIN(.name = "spin", .source = "a test", .more = CODEC_MORE(.events = &spin))
