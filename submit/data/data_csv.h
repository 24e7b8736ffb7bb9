/* data_csv -- a table of numbers as text, RFC 4180: cells parted by commas, quoted where they hold commas,
 * quotes or line ends; one column is what is to be learnt. */
#ifndef PSGD_DATA_CSV_H
#define PSGD_DATA_CSV_H

#include <stdbool.h>
#include <stddef.h>

#include "shared/err.h"

struct csv_form {
    const char *column; /* what is to be learnt: its name in the header or its number from 1; "": the last */
    bool is_target;     /* a number to regress; else a label, of which the words stay words */
    /* "yes", "no", "auto": yes where words of the first line stand where numbers should, and no number is in
     * it: a row with one is data, in which a cell that is none is refused. */
    const char *header;
};

struct csv_cell { /* of the table's text, without the quotes */
    const char *at;
    size_t len, line;
};

struct csv_table {
    size_t n_rows, n_values; /* values: columns less the one to be learnt */
    float *x;                /* (n_rows, n_values) */
    float *targets;          /* (n_rows), is_target */
    struct csv_cell *texts;  /* (n_rows), else; they lie in `text` */
};

/* Changes `text` in place (quotes), which must outlive the table. ERR_CONFIG: with line and column. */
int csv_parse(struct csv_table *t, char *text, size_t len, const struct csv_form *form, struct err *e);
void csv_clear(struct csv_table *t);

/* The distinct words of a table: sorted as numbers if all are numbers, else by their bytes. */
struct csv_classes {
    struct csv_cell *texts;
    size_t n;
    bool are_numbers;
};
/* ERR_CONFIG: fewer than 2, or more than CLASSES_MAX. */
int csv_classes_find(struct csv_classes *c, const struct csv_table *t, struct err *e);
/* -1: not among them. */
int csv_class_of(const struct csv_classes *c, const struct csv_cell *w);

#endif
