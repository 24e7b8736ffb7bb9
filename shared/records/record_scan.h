/* record_scan -- reads the CSV files that record.h writes, fast and whoever wrote them: the chosen columns of
 * each row, in one pass and in constant memory. A file of 10^6 rows takes some 0.2 s.
 *
 * A row that its writer has not ended with a line feed is left out; columns that the caller does not know
 * are skipped; a row too short for a column has an empty cell there. A strict scan leaves out each row with
 * another number of cells than the header, or with a byte that record.h never writes: one that is not
 * printable ASCII, or a quote. */
#ifndef PSGD_RECORD_SCAN_H
#define PSGD_RECORD_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shared/base/err.h"

enum {
    RECORD_SCAN_COLUMNS = 32, /* at most so many are chosen, */
    RECORD_SCAN_WIDTH = 128,  /* of a file with at most so many, */
    RECORD_SCAN_ROW = 1 << 16 /* in rows of at most so many bytes */
};

/* A cell, not terminated: it ends with a comma or the line feed. A missing column or value has len 0. */
struct record_text {
    const char *text;
    size_t len;
};

struct record_scan {
    const char *what;           /* the file's name in messages */
    const char *const *columns; /* the names of those chosen, all different */
    size_t n;
    uint32_t needed; /* bit k: columns[k] must be there */
    bool is_exact;   /* the file must have these columns, in this order, and no other */
    bool is_strict;
    size_t *n_left_out; /* of a strict scan: counts the rows that it leaves out; NULL: nobody asks */
    /* Gets each row's cells, in the order of `columns`; an error ends the scan. */
    int (*row)(void *ctx, const struct record_text *cells, struct err *e);
    void *ctx;
};

/* An open regular file, from its beginning (pread), and text that begins with a header. Empty: no rows.
 * ERR_PROTOCOL: a needed column is missing, the columns are not exactly these, or a limit above is exceeded.
 * ERR_IO, ERR_NOMEM. */
int record_scan_file(const struct record_scan *s, int fd, struct err *e);
int record_scan_text(const struct record_scan *s, const char *text, size_t len, struct err *e);

/* Returns a cell's number, correctly rounded, NaN and infinities included; RECORD_MISSING for an empty cell
 * or one that is no number. */
double record_number(const struct record_text *cell);

#endif
