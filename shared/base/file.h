/* file -- whole files, atomic replacement, files in memory, folders and paths. */
#ifndef PSGD_FILE_H
#define PSGD_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
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
/* Writes the temporary name of `path` that file_write uses in this process. */
int file_temporary(char *out, size_t size, const char *path, struct err *e);
/* Removes from a folder the files that have a temporary name of a process that has ended. */
void file_remove_temporary(const char *dir);
/* As file_write, of n parts one after the other. Unless `is_synced`, the file is not synced to the disk,
 * which takes some 10 ms: the replacement is then atomic if this process ends, not if the machine crashes.
 * file_sync_bytes() and file_sync_name() sync it later. */
int file_write_parts(const char *path, const struct iovec *parts, size_t n, mode_t mode, bool is_synced,
                     struct err *e);
/* As file_write_parts, of what write() writes to `fd`; it may call file_write_vector(). */
int file_write_by(const char *path, int (*write)(void *arg, int fd, const char *path, struct err *e),
                  void *arg, mode_t mode, bool is_synced, struct err *e);
int file_sync_bytes(const char *path, struct err *e); /* without its name. ERR_NOT_FOUND, ERR_IO */
/* Syncs a folder, after which all that was created, renamed or removed in it is on the disk. */
int file_sync_folder(const char *path, struct err *e);
int file_sync_name(const char *path, struct err *e); /* the folder of this path */

/* Writes all bytes, in several calls if necessary. */
int file_write_all(int fd, const void *bytes, size_t len, const char *what, struct err *e);
/* The same of n parts; many small ones are one call of the system. */
int file_write_vector(int fd, const struct iovec *parts, size_t n, const char *what, struct err *e);

/* Copies `len` bytes of an open file. ERR_IO: an I/O error, or the file became shorter meanwhile. */
int file_copy_bytes(int to, int from, size_t len, struct err *e);

enum { FILE_FD_PATH = 64, FILE_LINE_MAX = 65536 };

/* Returns the length of the file's prefix of whole lines; 0 if the last FILE_LINE_MAX of its `bytes` bytes
 * hold no line feed. */
uint64_t file_whole_lines(int fd, uint64_t bytes);

/* Copies a file of at most `most` bytes into a sealed memfd and returns its descriptor, close-on-exec. Bytes
 * that are checked in the copy are those that are used, even if the file is replaced or rewritten meanwhile;
 * and the copy can be mapped executable even if `path` is on a file system mounted noexec. ERR_NOT_FOUND,
 * ERR_IO, ERR_CONFIG: longer, or not a regular file. */
int file_copy_to_memory(const char *path, size_t most, struct err *e);
/* Returns the descriptor of a memfd with these bytes, not sealed, close-on-exec. ERR_IO. */
int file_make_in_memory(const void *bytes, size_t len, struct err *e);
/* Writes a path by which this process can open the file while `fd` is open, in any pid namespace of /proc. */
void file_fd_path(char out[FILE_FD_PATH], int fd);

/* Reserves disk space for `len` bytes after the end of an open file. Returns false if the disk is full; true
 * without a reservation if the file system does not support it. Space that was reserved before is kept in
 * both cases, until the file is truncated. */
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

/* Writes the path of a program, by its name, in the first folder of $PATH that has it. Returns false if none
 * has, or if the path does not fit. */
bool file_find_program(char *out, size_t size, const char *name);

/* The folder of this program's executable. */
int file_exe_dir(char *out, size_t size, struct err *e);

/* The folder of this user's psgd state: $XDG_STATE_HOME/psgd, else ~/.local/state/psgd. */
int file_state_dir(char *out, size_t size, struct err *e);

#endif
