/* dummy -- no communication: every node trains by itself on its own share.
 *
 * The reference that any rule should beat. Cost: nothing. */
#include "codec.h"

static const struct codec_events dummy = {0};

CODEC_PLUGIN(.name = "dummy", .source = "none: independent training", .cost = "nothing", .events = &dummy)
