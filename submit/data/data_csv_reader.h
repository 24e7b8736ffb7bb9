/* data_csv_reader -- a CSV text row by row, and what a row says of the table's columns: between the files of
 * data_csv_parser.h. */
#ifndef PSGD_DATA_CSV_READER_H
#define PSGD_DATA_CSV_READER_H

#include "submit/data/data_csv_parser.h"

enum { CSV_NAME_SHOWN = 40 };

struct csv_reader {
    char *at, *end;
    size_t line;
    struct csv_cell *cells; /* of the current row */
    size_t n_cells, room, n_seen;
    int *place; /* (n_columns), of each column of the table: CSV_TRUTH, ... */
    size_t n_columns;
    size_t learned;                  /* the column, of a table that is read on its own */
    size_t n_lacking, first_lacking; /* rows without a label or target; the line of the first one */
};

/* Reads the next row that is not empty: returns 1, or 0 at the end of the text. ERR_CONFIG: quotes. */
int csv_read_row(struct csv_reader *r, struct err *e);
bool csv_is_named(const struct csv_cell *c, const char *name);
/* A decimal number; one that is too large for a double is infinite. */
bool csv_decimal(double *out, const struct csv_cell *c);
/* True for a number, even if a float cannot hold it: inf, nan, 1e99. */
bool csv_is_meant_as_number(const struct csv_cell *c);

/* data_csv_columns.c: finds the columns of the first row, and whether that is the header. ERR_CONFIG: a
 * column that the form names is not there. */
int csv_find_columns(struct csv_table *t, bool *has_header, struct csv_reader *r, const struct csv_form *form,
                     struct data_warnings *w, struct err *e);
/* Whether column i is a value, or the one to learn. */
bool csv_is_used(const struct csv_reader *r, size_t i);
/* Names of a column that is meant to be learned. */
bool csv_is_truth_name(const struct csv_cell *c);
/* Warns of names of a header that may be a misunderstanding. `column` is learned. */
void csv_check_names(const struct csv_reader *r, size_t column, struct data_warnings *w);
/* Keeps the header's names in the table. A name ends at a zero byte, as a C string does. ERR_NOMEM. */
int csv_take_names(struct csv_table *t, const struct csv_reader *r, struct err *e);

/* data_csv_hints.c. What separates the cells of a line instead of commas; NULL: not known. */
const char *csv_other_separator(const struct csv_cell *c);
bool csv_may_lack_truth(const struct csv_form *form);
/* ERR_CONFIG: the row has one cell. */
int csv_one_column(const struct csv_reader *r, struct err *e);
/* ERR_CONFIG: the cell of column i is no number. */
int csv_not_a_number(const struct csv_table *t, const struct csv_reader *r, size_t i,
                     const struct csv_form *form, struct err *e);
/* Warns of what all rows say about columns and first line. has_guessed: the form does not say that there is
 * no header. */
void csv_check_rows(const struct csv_table *t, const struct csv_reader *r, bool has_guessed,
                    const struct csv_form *form, struct data_warnings *w);

#endif
