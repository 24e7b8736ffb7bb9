/* appender -- writes many files, text or binary, at the same time, of which only some are open at once. The
 * first write to a path begins a new file; missing folders are created. All files have temporary names until
 * appender_end(), so a path has either the whole new file or the former one. */
#ifndef PSGD_SUBMIT_APPENDER_H
#define PSGD_SUBMIT_APPENDER_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

#include "shared/base/err.h"

enum { APPENDER_OPEN_MAX = 64 };

struct appender {
    json_t *places; /* {path: index in `open`, or -1 while it is closed} */
    struct {
        char *path; /* owned */
        FILE *f;    /* NULL: none */
    } open[APPENDER_OPEN_MAX];
    int next;
};

/* *out: the stream of the file, owned by the appender and valid until the next call; *is_new: it is empty.
 * ERR_IO, ERR_NOMEM. */
int appender_file(struct appender *a, FILE **out, bool *is_new, const char *path, struct err *e);

/* Closes all files, gives them their names, and empties *a. If `rc` is below 0, the code of an error in *e,
 * the files are removed, and `rc` is returned. ERR_IO, ERR_NOSPACE: a file could not be written; all are
 * removed. */
int appender_end(struct appender *a, int rc, struct err *e);

#endif
