/* preload_log -- where a preloaded library writes down what it has seen. The file is opened when the library
 * is loaded: a process that has entered a sandbox, or become another user, could not open it. */
#ifndef PSGD_TESTS_PRELOAD_LOG_H
#define PSGD_TESTS_PRELOAD_LOG_H

#include "preload.h"

/* Above the descriptors of the program, whose numbers stay what they are without the library. */
enum { PRELOAD_LOG_FD = 900 };

/* -1: no path, or it cannot be opened. */
static inline int preload_log_open(const char *path)
{
    int fd = path ? real_open_at(AT_FDCWD, path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600) : -1;
    int high = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, PRELOAD_LOG_FD);

    if (fd >= 0)
        close(fd);
    return high;
}

/* The path of an open file, or what /proc has instead; "" on failure. */
static inline void preload_path_of(int fd, char path[PATH_MAX])
{
    char link[64];
    ssize_t n;

    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    n = readlink(link, path, PATH_MAX - 1);
    path[n < 0 ? 0 : n] = '\0';
}

#endif
