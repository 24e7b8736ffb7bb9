/* data_csv_parser -- a table of numbers as text, RFC 4180: cells separated by commas, in quotes where they
 * contain commas, quotes or line ends; one column is the label or target to learn. */
#ifndef PSGD_SUBMIT_DATA_CSV_PARSER_H
#define PSGD_SUBMIT_DATA_CSV_PARSER_H

#include <stdbool.h>
#include <stddef.h>

#include "shared/base/err.h"
#include "submit/data/data_warnings.h"
#include "submit/data/names.h"

/* What is done with a missing cell: empty, "NA", "NaN", "null", "?" and other texts of that meaning.
 * refuse: it is an error. drop: its row is left out. label: a missing label is a class like any other. */
#define CSV_MISSING_CHOICES "refuse|drop|label"
enum { CSV_NAME_LEN = 64, CSV_DROP_LEN = 256 };
enum csv_missing { CSV_MISSING_REFUSE, CSV_MISSING_DROP, CSV_MISSING_LABEL };

/* The columns of a table that was read before, which another one is read like. With names on both sides
 * columns are found by them, in any order; others are left out with a warning, and one that is missing is
 * an error. Else they are taken by their places, as many as there were. */
struct csv_known {
    size_t n_values;           /* columns other than the learned one */
    const struct names *names; /* (n_values + 1), or n 0: it had no header */
    size_t learned_at;         /* number of the learned column, from 1; 0: it is that of the form */
    bool may_lack_truth;       /* the learned column, or all of its cells, may be missing */
};

struct csv_form {
    const char *column; /* the column to learn: its name in the header or its number from 1; "": the last */
    bool is_target;     /* true: a number to regress; false: a label, which may be text */
    /* "yes", "no" or "auto". auto: the first line is a header if it has text where numbers are expected,
     * and no number in any cell, or if its numbers count 0, 1, 2, ... Another row with a number is data, and
     * a cell of it that is not a number is an error. */
    const char *header;
    enum csv_missing missing;
    const struct csv_known *known; /* NULL: none */
    /* Columns that are no values, as `column`: that by which samples are grouped, and those that are left
     * out, with '+' between them; "": none. */
    const char *group, *drop;
};

struct csv_cell { /* points into the table's text, without the quotes */
    const char *at;
    size_t len, line;
};

struct csv_table {
    size_t n_rows, n_values; /* values: columns other than the one to learn */
    float *x;                /* (n_rows, n_values) */
    float *targets;          /* (n_rows), with is_target */
    struct csv_cell *texts;  /* (n_rows), otherwise; they point into `text` */
    struct csv_cell *groups; /* (n_rows), with a column of groups */
    size_t n_dropped;        /* rows with a missing cell */
    /* The header's names, one after another, each with its zero byte; NULL: none. Without the columns that
     * are no values. */
    char *columns;
    size_t learned_at; /* number of the column to learn among these, from 1 */
    bool has_truth;    /* false, only with may_lack_truth: neither targets nor texts */
};

/* Changes `text` in place (quotes); `text` must outlive the table. ERR_CONFIG, with line and column. Warns of
 * columns that may not be meant as values, and of a first line that may have been misunderstood. */
int csv_parse(struct csv_table *t, char *text, size_t len, const struct csv_form *form,
              struct data_warnings *w, struct err *e);
void csv_clear(struct csv_table *t);

/* Functions behind it, also for other tables. A finite number that a float can hold: */
bool csv_number(float *out, const struct csv_cell *c);
bool csv_double(double *out, const struct csv_cell *c); /* the same, as it is written */
/* The precision of "%.*s" for a cell of any length. */
int csv_shown(const struct csv_cell *c);
/* Is the text one by which programs say that a value is missing? */
bool csv_is_missing(const struct csv_cell *c);
/* ERR_CONFIG: the text is no label, or a missing one; `column` from 1, 0: the table has none. */
int csv_check_label(const struct csv_cell *c, size_t column, enum csv_missing missing, struct err *e);

/* The places of a table's columns, by one that was read before. */
struct csv_row {
    const struct csv_cell *cells;
    size_t n_cells, line;
};
/* The place of a column: that of its value in a row of x, or one of these. */
enum { CSV_TRUTH = -1, CSV_LEFT_OUT = -2, CSV_GROUP = -3 };
/* Are the names of all known values in the row? */
bool csv_is_known_header(const struct csv_row *r, const struct csv_known *k);
/* place: (n_cells) by the table's first row; is_header: that is its header. k->learned_at is not 0. */
int csv_place_known(int *place, const struct csv_row *r, bool is_header, const struct csv_known *k,
                    struct data_warnings *w, struct err *e);

/* The distinct labels of a table, each by its text ("01" is not "1"): sorted as numbers if all are numbers,
 * else by their bytes. */
struct csv_classes {
    struct csv_cell *texts;
    size_t n;
    bool are_numbers;
};
/* ERR_CONFIG: fewer than 2, or more than CLASSES_MAX. Warns of labels that people read alike. */
int csv_classes_find(struct csv_classes *c, const struct csv_table *t, struct data_warnings *w,
                     struct err *e);
/* Orders cells by their bytes. */
int csv_compare(const void *a, const void *b);
/* Returns the index of the label; -1: not found. */
int csv_class_of(const struct csv_classes *c, const struct csv_cell *w);

#endif
