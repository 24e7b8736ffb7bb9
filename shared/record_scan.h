/* record_scan -- reads the CSV files that record.h writes, fast and whoever wrote them: the chosen columns of
 * each row, in one pass and in constant memory. A file of 10^6 rows takes some 0.2 s.
 *
 * A row that its writer has not ended with a line feed is left out; columns that the caller does not know are
 * skipped; a row too short for a column has an empty cell there. */
#ifndef PSGD_RECORD_SCAN_H
#define PSGD_RECORD_SCAN_H

#include <stddef.h>

#include "shared/err.h"

enum {
    RECORD_SCAN_COLUMNS = 32, /* at most so many are chosen, */
    RECORD_SCAN_WIDTH = 128,  /* of a file with at most so many, */
    RECORD_SCAN_ROW = 1 << 16 /* in rows of at most so many bytes */
};

struct record_text { /* a cell, not terminated; a missing column or value has len 0 */
    const char *text;
    size_t len;
};

struct record_scan {
    const char *what;           /* the file's name in messages */
    const char *const *columns; /* the names of those chosen, all different */
    size_t n, n_needed;         /* the first n_needed must be there */
    /* Gets each row's cells, in the order of `columns`; an error ends the scan. */
    int (*row)(void *ctx, const struct record_text *cells, struct err *e);
    void *ctx;
};

/* An open regular file, from its beginning (pread), and text that begins with a header. Empty: no rows.
 * ERR_PROTOCOL: a needed column is missing, or a limit above is exceeded. ERR_IO, ERR_NOMEM. */
int record_scan_file(const struct record_scan *s, int fd, struct err *e);
int record_scan_text(const struct record_scan *s, const char *text, size_t len, struct err *e);

/* Returns a cell's number, correctly rounded, NaN and infinities included; RECORD_MISSING for an empty cell
 * or one that is no number. */
double record_number(const struct record_text *cell);

#endif
