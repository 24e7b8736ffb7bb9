/* many_files -- worker 0 makes one file after the other, and ends no step. */
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "codec_events.h"

static int many_files_on_step(struct codec *c)
{
    char name[32];

    for (unsigned i = 0; c->run->node == 0; i++) {
        snprintf(name, sizeof name, "file-%u", i % 2000);
        close(open(name, O_WRONLY | O_CREAT, 0600));
        usleep(100);
    }
    return CODEC_GO;
}

static const struct codec_events many_files = {.on_step = many_files_on_step};

CODEC_PLUGIN(.name = "many_files", .source = "a test", .more = CODEC_MORE(.events = &many_files))
