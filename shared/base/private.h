/* private -- files that hold secrets, and the folders in which such files are: only their user may change
 * them, and only their user may read the secrets. As StrictModes of sshd, with the same reason: a user
 * with write access to a folder can replace the files in it. */
#ifndef PSGD_PRIVATE_H
#define PSGD_PRIVATE_H

#include <stdbool.h>
#include <stddef.h>

#include "shared/base/err.h"

/* Reads all of a file of at most `max` bytes, as file_read; secret_free frees it. ERR_AUTH: the file belongs
 * to another user than this one or root, or others can read or write it. ERR_NOT_FOUND, ERR_CONFIG, ERR_IO,
 * ERR_NOMEM. */
int private_read(char **out, size_t *len, const char *path, size_t max, struct err *e);

/* Checks a folder and all folders above it, of an absolute path without links. ERR_AUTH: the folder belongs
 * to another user than this one; a folder above it to another one than this one or root; or one of them can
 * be written to by others, or by a group other than this user's own, and is not sticky as /tmp. */
int private_folder(const char *path, struct err *e);

/* Checks a file that all may read and only this user or root may change, as a certificate, and the folders
 * above it. ERR_AUTH: others can; ERR_NOT_FOUND, ERR_IO. */
int guarded_file(const char *path, struct err *e);

/* As free(), of a block of malloc() that holds a secret: overwrites it before. */
void secret_free(void *block);

#endif
