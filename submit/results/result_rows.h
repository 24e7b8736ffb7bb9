/* result_rows -- the rows of a CSV file in a folder of results. */
#ifndef PSGD_SUBMIT_RESULT_ROWS_H
#define PSGD_SUBMIT_RESULT_ROWS_H

#include "shared/records/artifacts.h"
#include "shared/records/record_scan.h"

/* Calls `row` with the cells of each row, one for each column of the artifact, in its order, whatever the
 * file has besides; a cell is empty where the file has no such column. An error of `row` ends the reading. A
 * file that is not there, or is a link or a pipe, has no rows; the last row of a file that was cut off, and
 * rows that a strict scan leaves out, are skipped. ERR_IO; ERR_PROTOCOL: there is no column "node", or a
 * limit of record_scan.h is exceeded. */
int result_rows(const char *folder, const struct artifact *a,
                int (*row)(void *ctx, const struct record_text *cells, struct err *e), void *ctx,
                struct err *e);

/* A cell's number; NAN: it is empty or no number. */
double result_number(const struct record_text *cell);

#endif
