/* memory_file -- a copy of a file in memory that nobody can change any more: what is checked is what is used,
 * whoever replaces or rewrites the file meanwhile. */
#ifndef PSGD_MEMORY_FILE_H
#define PSGD_MEMORY_FILE_H

#include <stddef.h>

#include "shared/err.h"

enum { MEMORY_FILE_PATH = 64 };

/* Copies at most `most` bytes of `path` into a sealed memfd and returns its descriptor, closed by exec. As
 * memfds lie on no mounted file system, their bytes can be mapped to be executed where `path` lies on one
 * mounted noexec. ERR_NOT_FOUND, ERR_IO, ERR_CONFIG: longer, or no plain file. */
int memory_file_copy(const char *path, size_t most, struct err *e);

/* A path by which this process opens the copy while `fd` is open, whichever pid namespace /proc is of. */
void memory_file_path(char out[MEMORY_FILE_PATH], int fd);

#endif
