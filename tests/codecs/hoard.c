/* hoard -- worker 0 allocates without limit in its third step, and writes to the memory. */
#include <stdlib.h>
#include <string.h>

#include "codec.h"

enum { CHUNK = 64 << 20 };

static int hoard_on_step(struct codec *c)
{
    while (c->node == 0 && c->step == 3)
        memset(malloc(CHUNK), 1, CHUNK);
    return CODEC_GO;
}

static const struct codec_events hoard = {.on_step = hoard_on_step};

CODEC_PLUGIN(.name = "hoard", .source = "a test", .events = &hoard)
