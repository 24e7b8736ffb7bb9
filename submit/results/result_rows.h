/* result_rows -- the rows of a CSV file in a folder of results. */
#ifndef PSGD_SUBMIT_RESULT_ROWS_H
#define PSGD_SUBMIT_RESULT_ROWS_H

#include "shared/artifacts.h"
#include "submit/results/merged_records.h"

/* cells: one for each column of the artifact, in its order, whatever the file has besides; empty where
 * the file has no such column. They end with a comma or the line. */
typedef int rows_use(const struct record_cell *cells, void *with, struct err *e);

/* Calls `use` with each row, until it fails. A file that is not there, or is a link or a pipe, has none; the
 * last row of a file that was cut off, and rows of another form, are left out. ERR_IO; ERR_PROTOCOL: the
 * first line is not of column names, or a row is longer than any. */
int rows_each(const char *folder, const struct artifact *a, rows_use *use, void *with, struct err *e);

/* A cell's number; NAN: it is empty or no number. */
double rows_number(const struct record_cell *cell);

#endif
