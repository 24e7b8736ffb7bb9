/* private -- checks that only this user can read a file with a secret, and that no other user can change the
 * file or a folder above it: a user with write access to a folder can replace the files in it. The checks are
 * those of sshd's StrictModes. */
#ifndef PSGD_PRIVATE_H
#define PSGD_PRIVATE_H

#include <stdbool.h>
#include <stddef.h>

#include "shared/base/err.h"

/* Reads all of a file of at most `max` bytes, as file_read; secret_free frees it. ERR_AUTH: the file belongs
 * to another user than this one or root, or others can read or write it. ERR_NOT_FOUND, ERR_CONFIG, ERR_IO,
 * ERR_NOMEM. */
int private_read(char **out, size_t *len, const char *path, size_t max, struct err *e);

/* Checks a folder and all folders above it; `path` is absolute and has no links. ERR_AUTH: the folder belongs
 * to another user; a folder above it belongs to another user than this one or root; or others, or a group
 * other than this user's own, can write to one of them that is not sticky as /tmp is. */
int private_folder(const char *path, struct err *e);

/* Checks that only this user and root can change a file that all may read, such as a certificate, and the
 * folders above it. ERR_AUTH: others can change them; ERR_NOT_FOUND, ERR_IO. */
int guarded_file(const char *path, struct err *e);

/* Overwrites a block of malloc() with a secret, and frees it. */
void secret_free(void *block);

#endif
