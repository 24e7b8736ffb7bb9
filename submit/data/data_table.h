/* data_table -- a table of numbers as text (CSV, LIBSVM), of which one column is the label or target to
 * learn: which cells are missing, which are numbers, and the data set made of them. Readers of a format fill
 * a struct data_table; table_fill() turns its labels and groups, which are texts, into numbers. */
#ifndef PSGD_DATA_TABLE_H
#define PSGD_DATA_TABLE_H

#include <limits.h>

#include "submit/data/dataset.h"
#include "submit/data/preprocessing.h"

enum { TABLE_SHOWN = 40 /* characters of a cell in a message */ };

struct table_cell { /* points into the table's text */
    const char *at;
    size_t len, line;
};

struct data_table {
    size_t n_rows, n_values;   /* values: columns other than the one to learn */
    float *x;                  /* (n_rows, n_values) */
    float *targets;            /* (n_rows), if the learned column is a target; else: */
    struct table_cell *texts;  /* (n_rows) labels */
    struct table_cell *groups; /* (n_rows), with a column of groups */
    size_t n_dropped;          /* rows with a missing cell */
    /* The header's names, one after another, each with its zero byte, without the columns that are neither
     * values nor learned; NULL: no header. */
    char *columns;
    size_t learned_at; /* number of the column to learn among these, from 1 */
    bool has_truth;    /* false: the rows have neither targets nor labels */
};
void table_clear(struct data_table *t);

/* What is done with a missing cell: empty, "NA", "NaN", "null", "?" and other texts of that meaning.
 * refuse: it is an error. drop: its row is left out. label: a missing label is a class like any other. */
#define TABLE_MISSING_CHOICES "refuse|drop|label"
enum table_missing { TABLE_MISSING_REFUSE, TABLE_MISSING_DROP, TABLE_MISSING_LABEL };

/* The number in a cell; false: it is none that a float can hold. */
bool table_number(float *out, const struct table_cell *c);
bool table_double(double *out, const struct table_cell *c); /* not rounded to a float */
/* Any decimal number; one that is too large for a double is infinite. */
bool table_decimal(double *out, const struct table_cell *c);
/* Is it the text of a missing value? */
bool table_is_missing(const struct table_cell *c);
/* ERR_CONFIG: the text is no label, or a missing one; `column` from 1, 0: the table has none. */
int table_check_label(const struct table_cell *c, size_t column, enum table_missing missing, struct err *e);
/* The precision of "%.*s" for a cell of any length. */
int table_shown(const struct table_cell *c);
/* Orders cells by their bytes. */
int table_compare_cells(const void *a, const void *b);

/* The distinct labels of a table, each by its text ("01" is not "1"): sorted as numbers if all are numbers,
 * else by their bytes. */
struct table_classes {
    struct table_cell *texts;
    size_t n;
    bool are_numbers;
};
/* ERR_CONFIG: fewer than 2, or more than CLASSES_MAX. Warns of labels that people read alike. */
int table_classes_find(struct table_classes *c, const struct data_table *t, struct dataset_warnings *w,
                       struct err *e);
/* Returns the index of the label; -1: not found. */
int table_class_of(const struct table_classes *c, const struct table_cell *w);

struct table_files { /* of a folder */
    const char *train, *test;
};
/* Finds the files of both halves: those of a folder, or `path` and the file `test_file` beside it; test: ""
 * if one file is divided. ERR_NOT_FOUND. */
int table_find(char train[PATH_MAX], char test[PATH_MAX], const char *path, const char *test_file,
               const struct table_files *files, struct err *e);

struct table_part { /* one file: {0} is empty */
    char *text;     /* owned; the table's cells point into it */
    struct data_table table;
    struct dataset_warnings warnings;
};
void table_part_clear(struct table_part *p);

/* Moves the values of both tables, of which one may be empty, to the data set, and numbers labels and groups.
 * p: the record that has the classes; NULL: they are those of `train`. ERR_CONFIG: a label of no class; *d is
 * not empty then. */
int table_fill(struct dataset *d, struct table_part *train, struct table_part *test, const char *test_path,
               const struct preprocessing *p, struct err *e);

#endif
