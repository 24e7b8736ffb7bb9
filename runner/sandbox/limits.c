/* Limits on what seccomp and Landlock allow. The agent has set those of memory, file size, descriptors and
 * processor time before it started this process (agent/jobs/supervise.c). */
#include "runner/sandbox/limits.h"

#include <sys/resource.h>
#include <unistd.h>

#include "runner/sandbox/sandbox.h"

enum { THREADS = 64, THREADS_PER_PROCESSOR = 4 };

int limits_processors(void)
{
    static long n; /* the library reads a file for it */

    if (n == 0)
        n = sysconf(_SC_NPROCESSORS_ONLN);
    return n > 0 ? (int)n : 1;
}

int limits_threads(void)
{
    return THREADS + THREADS_PER_PROCESSOR * limits_processors();
}

static int lower_limit(int what, rlim_t most)
{
    struct rlimit l;

    if (getrlimit((unsigned)what, &l) < 0)
        return -1;
    l.rlim_max = l.rlim_max < most ? l.rlim_max : most;
    l.rlim_cur = l.rlim_max;
    return setrlimit((unsigned)what, &l);
}

/* RLIMIT_NPROC counts all threads of a user, so it is set only for a user that has no other process. */
int sandbox_limits(bool has_own_user, struct err *e)
{
    if ((has_own_user && lower_limit(RLIMIT_NPROC, (rlim_t)limits_threads()) < 0) ||
        lower_limit(RLIMIT_MSGQUEUE, 0) < 0 || lower_limit(RLIMIT_MEMLOCK, 0) < 0)
        return err_errno(e, ERR_IO, "setrlimit");
    return 1;
}
