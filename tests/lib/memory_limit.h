/* memory_limit -- for tests of what a limit of memory does. */
#ifndef PSGD_MEMORY_LIMIT_H
#define PSGD_MEMORY_LIMIT_H

#include <stdbool.h>
#include <sys/resource.h>

/* qemu-user sets none, as its own memory would count: a test that takes what it can get would get all. */
static inline bool memory_limits_hold(void)
{
    struct rlimit before, lower, after;

    getrlimit(RLIMIT_DATA, &before);
    lower = before;
    lower.rlim_cur--;
    setrlimit(RLIMIT_DATA, &lower);
    getrlimit(RLIMIT_DATA, &after);
    setrlimit(RLIMIT_DATA, &before);
    return after.rlim_cur == lower.rlim_cur;
}

#endif
