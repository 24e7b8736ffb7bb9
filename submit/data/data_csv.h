/* data_csv -- a table as CSV, RFC 4180: cells separated by commas, in quotes where they contain commas,
 * quotes or line ends. data_csv.c opens files as a data set, data_csv_table.c reads cells and rows,
 * data_csv_columns.c finds out what the columns are, data_csv_hints.c has the errors and warnings. */
#ifndef PSGD_DATA_CSV_H
#define PSGD_DATA_CSV_H

#include "submit/data/data_table.h"
#include "submit/data/names.h"

enum { CSV_NAME_LEN = 64, CSV_DROP_LEN = 256 };

/* The columns of a table that was read before, like which another one is read. If both have headers, columns
 * are found by their names, in any order; further columns are left out with a warning, and a missing one is
 * an error. Else columns are found by their places, and must be as many. */
struct csv_known {
    size_t n_values;           /* columns other than the learned one */
    const struct names *names; /* (n_values + 1), or n 0: the table had no header */
    size_t learned_at;         /* number of the learned column, from 1; 0: it is that of the form */
    bool may_lack_truth;       /* the learned column, or all of its cells, may be missing */
};

struct csv_form {
    const char *column; /* the column to learn: its name in the header or its number from 1; "": the last */
    bool is_target;     /* true: a number to regress; false: a label, which may be text */
    /* "yes", "no" or "auto". auto: the first line is a header if it has text where numbers are expected, and
     * no number in any cell, or if its numbers count 0, 1, 2, ... Another row with a number is data, and a
     * cell of it that is not a number is an error. */
    const char *header;
    enum table_missing missing;
    const struct csv_known *known; /* NULL: none */
    /* Columns that are no values, named as `column`: that by which samples are grouped, and those that are
     * left out, with '+' between them; "": none. */
    const char *group, *drop;
};

/* Changes `text` in place (quotes); `text` must outlive the table. ERR_CONFIG, with line and column. Warns of
 * columns that may not be meant as values, and of a first line that may not be meant as it is read. */
int csv_parse(struct data_table *t, char *text, size_t len, const struct csv_form *form,
              struct dataset_warnings *w, struct err *e);

/* What follows is for the files data_csv_*.c only. The place of a column: that of its value in a row of x, or
 * one of these. */
enum { CSV_TRUTH = -1, CSV_LEFT_OUT = -2, CSV_GROUP = -3 };

struct csv_reader {
    char *at, *end;
    size_t line;
    struct table_cell *cells; /* of the current row */
    size_t n_cells, room, n_seen;
    int *place; /* (n_columns), of each column of the table: CSV_TRUTH, ... */
    size_t n_columns;
    size_t learned;                  /* the learned column of a table that is read on its own */
    size_t n_lacking, first_lacking; /* rows without a label or target; the line of the first one */
};

/* Finds the columns of the first row, and whether that is the header. ERR_CONFIG: a column that the form
 * names is missing. */
int csv_find_columns(struct data_table *t, bool *has_header, struct csv_reader *r,
                     const struct csv_form *form, struct dataset_warnings *w, struct err *e);
/* Whether column i is a value, or the one to learn. */
bool csv_is_used(const struct csv_reader *r, size_t i);
/* Whether a name is one that columns to learn often have: "label", "class", "y", ... */
bool csv_is_truth_name(const struct table_cell *c);
/* Warns of names of a header that may be a misunderstanding. `column` is learned. */
void csv_check_names(const struct csv_reader *r, size_t column, struct dataset_warnings *w);
/* Stores the header's names in the table. A name ends at a zero byte, as a C string does. ERR_NOMEM. */
int csv_take_names(struct data_table *t, const struct csv_reader *r, struct err *e);

/* What separates the cells of a line instead of commas; NULL: not known. */
const char *csv_other_separator(const struct table_cell *c);
bool csv_may_lack_truth(const struct csv_form *form);
/* ERR_CONFIG: the row has one cell. */
int csv_one_column(const struct csv_reader *r, struct err *e);
/* ERR_CONFIG: the cell of column i is no number. */
int csv_not_a_number(const struct data_table *t, const struct csv_reader *r, size_t i,
                     const struct csv_form *form, struct err *e);
/* Warns of columns that count the rows, and of a first line that may be the header. has_guessed: the form
 * does not say that there is no header. */
void csv_check_rows(const struct data_table *t, const struct csv_reader *r, bool has_guessed,
                    const struct csv_form *form, struct dataset_warnings *w);

#endif
