/* emulated -- does this program run under qemu-user? It differs from a kernel: it sets no limit of memory,
 * as its own would count, so that a test that allocates all it can would get all; it has descriptors of its
 * own among those below 3; and it prints a message when a program crashes. */
#ifndef PSGD_EMULATED_H
#define PSGD_EMULATED_H

#include <stdbool.h>
#include <sys/resource.h>

static inline bool is_emulated(void)
{
    struct rlimit before, lower, after;

    getrlimit(RLIMIT_DATA, &before);
    lower = before;
    lower.rlim_cur--;
    setrlimit(RLIMIT_DATA, &lower);
    getrlimit(RLIMIT_DATA, &after);
    setrlimit(RLIMIT_DATA, &before);
    return after.rlim_cur != lower.rlim_cur;
}

#endif
