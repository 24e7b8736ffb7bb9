/* spin_deaf -- worker 0 blocks every signal in its third step, and never returns from it; it naps there,
 * because the tests share processors. */
#include <signal.h>
#include <time.h>

#include "codec_events.h"

static int spin_deaf_on_step(struct codec *c)
{
    sigset_t all;

    sigfillset(&all);
    if (c->run->node == 0 && c->run->step == 3)
        sigprocmask(SIG_BLOCK, &all, NULL);
    while (c->run->node == 0 && c->run->step == 3)
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    return CODEC_GO;
}

static const struct codec_events spin_deaf = {.on_step = spin_deaf_on_step};

CODEC_PLUGIN(.name = "spin_deaf", .source = "a test", .more = CODEC_MORE(.events = &spin_deaf))
