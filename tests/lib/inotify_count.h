/* inotify_count -- how many inotify instances this process holds. */
#ifndef PSGD_INOTIFY_COUNT_H
#define PSGD_INOTIFY_COUNT_H

#include <dirent.h>

#include "tests/unit/unit.h"

static inline int inotify_count(void)
{
    DIR *fds = opendir("/proc/self/fd");
    struct dirent *d;
    int n = 0;

    assert_non_null(fds);
    while ((d = readdir(fds)) != NULL) {
        char to[64] = "";

        n += readlinkat(dirfd(fds), d->d_name, to, sizeof to - 1) > 0 &&
             strcmp(to, "anon_inode:inotify") == 0;
    }
    closedir(fds);
    return n;
}

#endif
