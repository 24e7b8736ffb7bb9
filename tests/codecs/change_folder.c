/* change_folder -- changes the working directory in open() and in its third step, which no codec should
 * do. */
#define _POSIX_C_SOURCE 200809L /* chdir */
#include <unistd.h>

#include "codec_events.h"

static int change_to_root(struct codec *c)
{
    return chdir("/") == 0 ? CODEC_GO : codec_fail(c, "cannot change to the root folder");
}

static int change_folder_on_step(struct codec *c)
{
    if (c->run->step == 3 && change_to_root(c) < 0)
        return -1;
    return codec_record(c, "steps", (double)c->run->step);
}

static const struct codec_events change_folder = {.on_step = change_folder_on_step,
                                                  .is_quiescent_between_steps = true};

CODEC_PLUGIN(.name = "change_folder", .source = "a test", .open = change_to_root,
             .more = CODEC_MORE(.events = &change_folder))
