/* stuck_load -- the mean of gradients, whose constructor does not return in a runner; STUCK_IN names other
 * programs. With STUCK_AT_EXIT it is the destructor. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <time.h>

#include "codec.h"

#ifndef STUCK_IN
#define STUCK_IN "job_runner"
#endif

#ifdef STUCK_AT_EXIT
__attribute__((destructor))
#else
__attribute__((constructor))
#endif
static void
stay(void)
{
    while (strcmp(program_invocation_short_name, STUCK_IN) == 0)
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
}

static const struct codec_combine stuck_load = {.when = CODEC_EACH_STEP};

CODEC_PLUGIN(.name = "stuck_load", .source = "a test", .combine = &stuck_load)
