/* data_table -- a data set of rows of numbers, of one file that is divided or of one for each half.
 * Readers of a format make the tables (csv_table: values, and labels as texts or targets); this makes
 * labels and groups of their texts. */
#ifndef PSGD_DATA_TABLE_H
#define PSGD_DATA_TABLE_H

#include <limits.h>

#include "submit/data/data_csv_parser.h"
#include "submit/data/dataset.h"
#include "submit/data/preprocessing.h"

struct table_files { /* of a folder */
    const char *train, *test;
};

/* Finds the files of both halves: a folder's, or `path` and the file `test_file` beside it; test: ""
 * where one file is divided. ERR_NOT_FOUND. */
int table_find(char train[PATH_MAX], char test[PATH_MAX], const char *path, const char *test_file,
               const struct table_files *files, struct err *e);

struct table_part { /* one file: {0} is empty */
    char *text;     /* owned; the table's cells point into it */
    struct csv_table table;
    struct data_warnings warnings;
};
void table_part_clear(struct table_part *p);

/* Moves the numbers of both tables, of which one may be empty, to the data set, and numbers labels and
 * groups. p: the record whose classes labels are; NULL: those of `train`. ERR_CONFIG: a label that is
 * none of them; *d is not empty then. */
int table_fill(struct dataset *d, struct table_part *train, struct table_part *test, const char *test_path,
               const struct preprocessing *p, struct err *e);

#endif
