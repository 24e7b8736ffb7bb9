/* old_abi -- built against an older codec.h. */
#include "codec.h"

extern const struct codec_plugin codec_plugin;
const struct codec_plugin codec_plugin = {.layout = {0, 8}, .name = "old_abi"};
