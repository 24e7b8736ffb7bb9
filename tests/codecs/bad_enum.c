/* bad_enum -- its .compression is larger than the last value of that enumeration. */
#include "codec_events.h"

static int bad_enum_on_step(struct codec *c)
{
    (void)c;
    return CODEC_GO;
}

static const struct codec_events bad_enum = {.on_step = bad_enum_on_step};

CODEC_PLUGIN(.name = "bad_enum",
             .more = CODEC_MORE(.events = &bad_enum,
                                .compression = (enum codec_compression)(CODEC_LOSSY_PARAMS + 1)))
