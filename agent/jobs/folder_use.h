/* folder_use -- what the files of a folder occupy on the disk. */
#ifndef PSGD_FOLDER_USE_H
#define PSGD_FOLDER_USE_H

#include <stddef.h>
#include <stdint.h>

struct folder_use {
    uint64_t bytes; /* blocks of regular files: a hole occupies none */
    size_t n_files;
};

/* Of the files in it, without those of folders below. Counting ends beyond `most` files, as a hostile job may
 * have made any number. A folder that cannot be read has no files. */
struct folder_use folder_use(const char *path, size_t most);

#endif
