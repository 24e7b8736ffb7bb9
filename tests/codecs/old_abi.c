/* old_abi -- built against an older codec.h. */
#include "codec.h"

static const struct codec_events none = {0};

extern const struct codec_plugin codec_plugin;
const struct codec_plugin codec_plugin = {.abi = 0, .plugin_size = 8, .name = "old_abi", .events = &none};
