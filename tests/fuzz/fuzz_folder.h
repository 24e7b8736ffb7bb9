/* fuzz_folder -- a folder in memory, for a target whose input is the content of files. */
#ifndef PSGD_FUZZ_FOLDER_H
#define PSGD_FUZZ_FOLDER_H

#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#include "shared/base/file.h"
#include "tests/fuzz/must.h"

static char fuzz_folder[64]; /* its path */

static inline void fuzz_folder_remove(void)
{
    file_remove_tree(fuzz_folder, &(struct err){0});
}

/* Makes it at the first call; it is removed at exit. Returns whether this is the first call. */
static inline bool fuzz_folder_open(const char *target)
{
    struct err e;

    if (fuzz_folder[0])
        return false;
    snprintf(fuzz_folder, sizeof fuzz_folder, "/dev/shm/psgd-fuzz-%s-%ld", target, (long)getpid());
    must(file_mkdirs(fuzz_folder, 0700, &e) == 0 && atexit(fuzz_folder_remove) == 0);
    return true;
}

static inline void fuzz_folder_write(const char *name, const void *bytes, size_t len)
{
    char path[192];
    struct err e;

    snprintf(path, sizeof path, "%s/%s", fuzz_folder, name);
    must(file_write(path, bytes, len, 0600, &e) == 0);
}

#endif
