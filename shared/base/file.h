/* file -- whole files, atomic replacement, and folders. */
#ifndef PSGD_FILE_H
#define PSGD_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "shared/base/err.h"

/* Reads all of `path` (at most `max` bytes, else ERR_CONFIG) into *out, which the caller frees; with a zero
 * byte after the end, which `*len` does not count. ERR_NOT_FOUND, ERR_IO, ERR_NOMEM. */
int file_read(char **out, size_t *len, const char *path, size_t max, struct err *e);

/* Replaces `path` as a whole: temporary name in the same folder, fsync, rename, fsync of the folder. The
 * umask applies to `mode`. ERR_IO, also if `path` is a folder, a device or a pipe. */
int file_write(const char *path, const void *bytes, size_t len, mode_t mode, struct err *e);
/* ERR_IO: `path` is a folder, a device or a pipe, which file_write() leaves as it is. */
int file_check_replaceable(const char *path, struct err *e);
/* The temporary name that file_write gives `path` in this process. */
int file_temporary(char *out, size_t size, const char *path, struct err *e);
/* Removes from a folder the files with a temporary name of a process that has ended. */
void file_sweep(const char *dir);
/* As file_write, of n parts one after the other. Not synced to the disk, which takes some 10 ms, it is atomic
 * if this process ends, not if the machine crashes; file_sync() syncs it later. */
int file_write_parts(const char *path, const struct iovec *parts, size_t n, mode_t mode, bool is_synced,
                     struct err *e);
int file_sync(const char *path, struct err *e); /* ERR_NOT_FOUND, ERR_IO */
/* What was created, renamed or removed in a folder is on the disk once the folder is synced. */
int file_sync_folder(const char *path, struct err *e);
int file_sync_name(const char *path, struct err *e); /* the folder of this path */

/* Writes all bytes, in several calls if necessary. */
int file_write_all(int fd, const void *bytes, size_t len, const char *what, struct err *e);

/* Reserves disk space for `len` bytes after the end of an open file. Returns false if the disk is full;
 * true without a reservation if the file system does not support it. */
bool file_keep_room(int fd, size_t len);

/* Creates a folder and its parents. */
int file_mkdirs(const char *path, mode_t mode, struct err *e);

/* Removes a folder and its contents; a missing one is not an error. Never follows links. */
int file_remove_tree(const char *path, struct err *e);

/* Removes all that a folder contains, but for regular files whose name is_kept() accepts. Returns how many
 * files and folders were removed. Never follows links; of a path that is one, nothing is removed. */
size_t file_keep_only(const char *dir, bool (*is_kept)(const char *name));

/* Joins folder and name; ERR_CONFIG if the path does not fit. */
int file_join(char *out, size_t size, const char *dir, const char *name, struct err *e);

/* Whether `path` ends with `ending`; "mean.c" ends with ".c", ".c" itself does not. */
bool file_has_ending(const char *path, const char *ending);

/* Makes a path absolute, so that it does not depend on the current folder. */
int file_absolute(char *out, size_t size, const char *path, struct err *e);

/* The folder of this program's executable. */
int file_exe_dir(char *out, size_t size, struct err *e);

/* The folder of this user's psgd state: $XDG_STATE_HOME/psgd, else ~/.local/state/psgd. */
int file_state_dir(char *out, size_t size, struct err *e);

#endif
