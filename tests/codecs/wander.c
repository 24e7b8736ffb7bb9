/* wander -- changes the working directory in open() and in its third step, which no codec should do. */
#define _POSIX_C_SOURCE 200809L /* chdir */
#include <unistd.h>

#include "codec_events.h"

static int leave(struct codec *c)
{
    return chdir("/") == 0 ? CODEC_GO : codec_fail(c, "cannot change to the root folder");
}

static int wander_on_step(struct codec *c)
{
    if (c->run->step == 3 && leave(c) < 0)
        return -1;
    return codec_record(c, "steps", (double)c->run->step);
}

static const struct codec_events wander = {.on_step = wander_on_step, .is_quiescent_between_steps = true};

CODEC_PLUGIN(.name = "wander", .source = "a test", .open = leave, .more = CODEC_MORE(.events = &wander))
