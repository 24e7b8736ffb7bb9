/* appender -- many text or binary files that grow at the same time, of which only some are open at once.
 * The first write to a path begins the file anew; folders are made as needed. */
#ifndef PSGD_SUBMIT_APPENDER_H
#define PSGD_SUBMIT_APPENDER_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

#include "shared/err.h"

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

/* Closes all files, and empties *a. ERR_IO, ERR_NOSPACE: not all that was written is there. */
int appender_close(struct appender *a, struct err *e);

#endif
