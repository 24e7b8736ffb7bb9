/* file -- whole files, atomic replacement, and folders. */
#ifndef PSGD_FILE_H
#define PSGD_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "shared/err.h"

/* Reads all of `path` (at most `max` bytes, else ERR_CONFIG) into *out, which the caller frees; one zero
 * byte behind the end that `*len` does not count. ERR_NOT_FOUND, ERR_IO, ERR_NOMEM. */
int file_read(char **out, size_t *len, const char *path, size_t max, struct err *e);

/* Replaces `path` as a whole: temporary name in the same folder, fsync, rename, fsync of the folder. The
 * umask takes from `mode`. ERR_IO, among others where `path` is a folder, a device or a pipe. */
int file_write(const char *path, const void *bytes, size_t len, mode_t mode, struct err *e);
/* As file_write without a wait for the disk, some 10 ms: whole whatever becomes of this process, not of the
 * machine. file_sync makes up for it. */
int file_write_unsynced(const char *path, const void *bytes, size_t len, mode_t mode, struct err *e);
int file_sync(const char *path, struct err *e); /* ERR_NOT_FOUND, ERR_IO */

/* Writes every byte, whatever the kernel takes at once. */
int file_write_all(int fd, const void *bytes, size_t len, const char *what, struct err *e);

/* Keeps room for `len` bytes behind the end of an open file. False: the disk is full. True, and nothing kept,
 * where the file system cannot do that. */
bool file_keep_room(int fd, size_t len);

/* Makes a folder and its parents. */
int file_mkdirs(const char *path, mode_t mode, struct err *e);

/* Removes a folder with all that is in it; a missing one is fine. Never follows a link. */
int file_remove_tree(const char *path, struct err *e);

/* Joins folder and name; ERR_CONFIG when the path would not fit. */
int file_join(char *out, size_t size, const char *dir, const char *name, struct err *e);

/* "mean.c" has the ending ".c", and ".c" alone has not. */
bool file_has_ending(const char *path, const char *ending);

/* The same place, whatever folder is the present one later: a path that begins with '/'. */
int file_absolute(char *out, size_t size, const char *path, struct err *e);

/* The folder that this program's executable lies in. */
int file_exe_dir(char *out, size_t size, struct err *e);

/* Where this user's state of psgd lies: $XDG_STATE_HOME/psgd, else ~/.local/state/psgd. */
int file_state_dir(char *out, size_t size, struct err *e);

#endif
