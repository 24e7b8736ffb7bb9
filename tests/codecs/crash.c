/* crash -- reads through a null pointer after its third step. */
#include "codec_events.h"

static int crash_on_step(struct codec *c)
{
    float *volatile nowhere = NULL;

    return c->run->step == 3 ? (int)*nowhere : CODEC_GO;
}

static const struct codec_events crash = {.on_step = crash_on_step};

CODEC_PLUGIN(.name = "crash", .source = "a test", .more = CODEC_MORE(.events = &crash))
