/* text -- text for people on stdout: that of agents without control characters, numbers with their units,
 * tables. */
#ifndef PSGD_SUBMIT_TEXT_H
#define PSGD_SUBMIT_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shared/base/err.h"

enum { TEXT_AMOUNT = 24, TEXT_TABLE_COLUMNS = 32 };

/* printf to stdout through utf8_clean, keeping line feeds: no text of an agent moves the cursor. */
void text_print(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* "." to append to `text`; "" if it ends with a sentence mark already. */
const char *text_stop(const char *text);

/* Quotes `text` for a shell as one argument; unquoted if it has no special character. Truncates a text that
 * does not fit. */
const char *text_shell_quote(char *out, size_t size, const char *text);

const char *text_bytes(char out[TEXT_AMOUNT], uint64_t bytes); /* "1.2 MB" */
const char *text_seconds(char out[TEXT_AMOUNT], double s);     /* "3.41 s", "2 min 05 s" */
const char *text_result(char out[TEXT_AMOUNT], double v);      /* a loss: "0.1234", "1.16e+58"; "-" */
const char *text_hour(char out[TEXT_AMOUNT], double wall); /* "10:50:19", local time of a clock_wall time */

/* A table: columns as wide as their widest cell, numbers aligned on the right. `= {0}` is an empty table. Its
 * cells are added in order: those of the heads, then row by row. */
struct text_table {
    size_t n_columns, n_cells, n_held;
    bool is_number[TEXT_TABLE_COLUMNS]; /* aligned on the right */
    char **cells;                       /* cleaned: no cell moves the cursor */
    bool has_failed;                    /* no memory; printing reports it */
};

/* Adds a column and its head; all columns before the first cell. With more than TEXT_TABLE_COLUMNS printing
 * returns ERR_INTERNAL. */
void text_table_column(struct text_table *t, bool is_number, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void text_table_cell(struct text_table *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Prints the table to stdout. ERR_NOMEM, ERR_INTERNAL. */
int text_table_print(const struct text_table *t, struct err *e);
void text_table_clear(struct text_table *t);

#endif
