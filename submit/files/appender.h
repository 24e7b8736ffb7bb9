/* appender -- many text or binary files that grow at the same time, of which only some are open at once.
 * The first write to a path begins the file anew; folders are made as needed. All files have temporary names
 * until appender_end(): each is there whole or as it was. */
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

/* *is_new: nothing is in it yet. The stream is the appender's, valid until the next call. ERR_IO,
 * ERR_NOMEM. */
int appender_file(struct appender *a, FILE **out, bool *is_new, const char *path, struct err *e);

/* Closes all files, gives them their names, and empties *a. `rc` below 0, the code of an error in *e: the
 * files are removed, and it is returned. ERR_IO, ERR_NOSPACE: not all could be written; the files are
 * removed. */
int appender_end(struct appender *a, int rc, struct err *e);

#endif
