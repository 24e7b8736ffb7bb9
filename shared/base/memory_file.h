/* memory_file -- an immutable copy of a file in memory: the bytes that are checked are those that are used,
 * even if the file is replaced or rewritten meanwhile. */
#ifndef PSGD_MEMORY_FILE_H
#define PSGD_MEMORY_FILE_H

#include <stddef.h>

#include "shared/base/err.h"

enum { MEMORY_FILE_PATH = 64 };

/* Copies at most `most` bytes of `path` into a sealed memfd and returns its descriptor, closed by exec. A
 * memfd is on no mounted file system, so it can be mapped executable even if `path` is on one mounted
 * noexec. ERR_NOT_FOUND, ERR_IO, ERR_CONFIG: longer, or not a regular file. */
int memory_file_copy(const char *path, size_t most, struct err *e);

/* A memfd of these bytes, not sealed. ERR_IO. */
int memory_file_make(const void *bytes, size_t len, struct err *e);

/* Writes a path by which this process can open the copy while `fd` is open, in any pid namespace of /proc. */
void memory_file_path(char out[MEMORY_FILE_PATH], int fd);

#endif
