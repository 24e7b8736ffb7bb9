/* dummy -- no communication: every node trains by itself on its own shard.
 *
 * The baseline that any rule should beat. Cost: nothing. */
#include "codec_events.h"

static struct codec_cost dummy_sends(const struct codec *c)
{
    (void)c;
    return (struct codec_cost){0, 0};
}

static const struct codec_events dummy = {0};

CODEC_PLUGIN(.name = "dummy", .source = "none: independent training",
             .more = CODEC_MORE(.cost = "nothing", .events = &dummy, .sends = dummy_sends,
                                .compression = CODEC_UNCOMPRESSED, .result = CODEC_OWN_RESULT))
