/* text_table -- a table for people: columns as wide as their widest cell, numbers aligned on the right. */
#ifndef PSGD_SUBMIT_TEXT_TABLE_H
#define PSGD_SUBMIT_TEXT_TABLE_H

#include <stdbool.h>
#include <stddef.h>

#include "shared/base/err.h"

enum { TEXT_TABLE_COLUMNS = 32 };

/* `= {0}` is an empty table. Cells come in order: those of the heads, then row by row. */
struct text_table {
    size_t n_columns, n_cells, n_held;
    bool is_number[TEXT_TABLE_COLUMNS]; /* aligned on the right */
    char **cells;                       /* cleaned: no cell moves the cursor */
    bool has_failed;                    /* no memory; printing reports it */
};

/* Adds a column; all before the first cell. One too many is ERR_INTERNAL when the table is printed. */
void text_table_column(struct text_table *t, bool is_number, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void text_table_cell(struct text_table *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

int text_table_print(const struct text_table *t, struct err *e); /* on stdout */
void text_table_clear(struct text_table *t);

#endif
