/* tutorial_codec -- Parallel-SGD's tutorial: every worker sends its gradient to the others and uses the mean
 * of all.
 *
 *     job_submit --codec tutorial_codec.myComCtrl --node_count 2 */
#include "codec.h"

static const struct codec_combine tutorial = {.when = CODEC_EACH_STEP};

CODEC_PLUGIN(.name = "tutorial_codec", .source = "Parallel-SGD, the tutorial's codec", .combine = &tutorial)
