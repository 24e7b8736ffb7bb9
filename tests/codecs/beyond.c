/* Each enumeration of codec.h has a last value; the .compression of this codec is beyond it. */
#include "codec_events.h"

static int beyond_on_step(struct codec *c)
{
    (void)c;
    return CODEC_GO;
}

static const struct codec_events beyond = {.on_step = beyond_on_step};

CODEC_PLUGIN(.name = "beyond",
             .more = CODEC_MORE(.events = &beyond,
                                .compression = (enum codec_compression)(CODEC_LOSSY_PARAMS + 1)))
