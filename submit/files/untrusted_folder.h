/* untrusted_folder -- the files of a result folder that anybody may have written: only regular files below it
 * are opened, no link is followed, nothing blocks on a FIFO, and every size has a limit. */
#ifndef PSGD_SUBMIT_UNTRUSTED_FOLDER_H
#define PSGD_SUBMIT_UNTRUSTED_FOLDER_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "shared/base/err.h"

/* The folder itself; the caller names it, so it may be a link. */
int folder_open(int *dir, const char *path, struct err *e);
/* A folder in it; no link. ERR_NOT_FOUND; ERR_IO: this process has no descriptor or memory left for it. */
int folder_enter(int *sub, int dir, const char *name, struct err *e);

/* A file of the folder by its path in it. ERR_NOT_FOUND: there is none, or it is no regular file, or the path
 * has a link or "..". ERR_IO: as above. */
int folder_file(int *fd, uint64_t *bytes, int dir, const char *path, struct err *e);

/* A whole file of at most `max` bytes, else its last ones; the caller frees it. With a zero byte after it. */
int folder_text(char **out, size_t *len, int dir, const char *path, size_t max, struct err *e);
/* ERR_CONFIG: it is longer, or no JSON. */
int folder_json(json_t **out, int dir, const char *path, size_t max, struct err *e);

/* The names in a folder, sorted, at most `max` of them, without those that begin with a dot. NULL, and 0 of
 * them, on an error too. */
int folder_list(char ***names, size_t *n, int dir, size_t max, struct err *e);
void folder_list_free(char **names, size_t n);

#endif
