/* allocate -- worker 0 allocates without limit in its third step, and writes to the memory. With `hides`
 * it then makes it read-only, which RLIMIT_DATA does not count. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "codec_events.h"

enum { CHUNK = 64 << 20 };

struct allocate {
    int hides;
};

static const struct codec_option options[] = {
    CODEC_OPTION(struct allocate, hides, 0, 0, 1, "1: from the limit of memory"),
    {0},
};

static void hide(void)
{
    void *p = mmap(NULL, CHUNK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    memset(p, 1, CHUNK);
    mprotect(p, CHUNK, PROT_READ);
}

static int allocate_on_step(struct codec *c)
{
    const struct allocate *h = c->state;

    while (c->run->node == 0 && c->run->step == 3)
        if (h->hides)
            hide();
        else
            memset(malloc(CHUNK), 1, CHUNK);
    return CODEC_GO;
}

static const struct codec_events allocate = {.on_step = allocate_on_step};

CODEC_PLUGIN(.name = "allocate", .source = "a test", .state_size = sizeof(struct allocate),
             .options = options, .more = CODEC_MORE(.events = &allocate))
