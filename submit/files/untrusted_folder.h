/* untrusted_folder -- the files of a result folder that anybody may have written: only regular files below it
 * are opened, no link is followed, nothing blocks on a FIFO, and every size has a limit. */
#ifndef PSGD_SUBMIT_UNTRUSTED_FOLDER_H
#define PSGD_SUBMIT_UNTRUSTED_FOLDER_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "shared/base/err.h"

/* Opens the folder itself; it may be a link, because the user names it. */
int untrusted_open(int *dir, const char *path, struct err *e);
/* Opens a folder in it, but no link. ERR_NOT_FOUND; ERR_IO: this process has no descriptor or memory left. */
int untrusted_enter(int *sub, int dir, const char *name, struct err *e);

/* Opens a file by its path in the folder; *bytes: its length. ERR_NOT_FOUND: there is none, it is no regular
 * file, or the path has a link or "..". ERR_IO: as above. */
int untrusted_file(int *fd, uint64_t *bytes, int dir, const char *path, struct err *e);

/* Reads a file, of a longer one than `max` bytes the last `max`; a zero byte follows the text, which the
 * caller frees. */
int untrusted_text(char **out, size_t *len, int dir, const char *path, size_t max, struct err *e);
/* Reads a JSON document. ERR_CONFIG: the file has more than `max` bytes, or is not JSON. */
int untrusted_json(json_t **out, int dir, const char *path, size_t max, struct err *e);

/* The names in a folder, sorted, at most `max` of them, without those that begin with a dot. On an error
 * *names is NULL and *n is 0. */
int untrusted_list(char ***names, size_t *n, int dir, size_t max, struct err *e);
void untrusted_list_free(char **names, size_t n);

#endif
