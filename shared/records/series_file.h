/* series_file -- which of a job's CSV files have curves, and how: for series.c and series_request.c only. */
#ifndef PSGD_SERIES_FILE_H
#define PSGD_SERIES_FILE_H

#include <stdbool.h>

#include "shared/records/artifacts.h"
#include "shared/records/series.h"

/* A file has a column for each value; or a row for each, with the value's name in a cell. */
struct series_file {
    const char *name, *name_column, *value_column; /* NULL: the former */
    enum artifact_id id;
    bool has_x[N_SERIES_X];
};

extern const char *const series_x_names[]; /* ends with NULL */

const struct series_file *series_file_of(int artifact); /* NULL: it has no curves */

/* Whether a value may have this name: printable ASCII, without what JSON or HTML would have to escape, and
 * not another key of the document. */
bool series_is_name(const char *text, size_t len);

#endif
