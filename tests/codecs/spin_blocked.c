/* spin_blocked -- worker 0 blocks every signal in its third step, and does not return from it; it sleeps
 * there, because the tests share processors. */
#include <signal.h>
#include <time.h>

#include "codec_events.h"

static int spin_blocked_on_step(struct codec *c)
{
    sigset_t all;

    sigfillset(&all);
    if (c->run->node == 0 && c->run->step == 3)
        sigprocmask(SIG_BLOCK, &all, NULL);
    while (c->run->node == 0 && c->run->step == 3)
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    return CODEC_GO;
}

static const struct codec_events spin_blocked = {.on_step = spin_blocked_on_step};

CODEC_PLUGIN(.name = "spin_blocked", .source = "a test", .more = CODEC_MORE(.events = &spin_blocked))
