/* series_request -- what curves are asked for (series.h): of which of a job's files, which values, over what,
 * and in how many points. */
#ifndef PSGD_SERIES_REQUEST_H
#define PSGD_SERIES_REQUEST_H

#include <stdbool.h>
#include <stddef.h>

#include "shared/base/err.h"
#include "shared/records/artifacts.h"

enum series_x {
    SERIES_STEP,
    SERIES_EPOCH, /* with the part of it that is done */
    SERIES_TIME,  /* seconds since training began on the node; of a simulation, simulated ones */
    SERIES_BYTES, /* that the node has sent and received: those of the steps with a row; eval.csv has all */
    N_SERIES_X
};

/* As the points of all nodes together are bounded, each of many nodes has fewer, 8 at least. */
enum {
    SERIES_NAMES = 16,
    SERIES_NAME = 64, /* bytes */
    SERIES_POINTS = 100000,
    SERIES_POINTS_IN_ALL = 1 << 16
};

/* What is asked for; {0} is nothing, use series_request_set(). */
struct series_request {
    int file; /* enum artifact_id: train, eval, codec or metrics */
    enum series_x x;
    size_t points, points_in_all; /* of a node, of all nodes together */
    double from, to;              /* the range of x */
    size_t nodes_most;            /* whose curves are written, those that occur first; the mean is over all */
    size_t n_names;               /* 0: all that occur, of codec.csv and metrics.csv */
    char names[SERIES_NAMES][SERIES_NAME];
};

/* From the texts of an option or of a URL's query; NULL: train, the file's loss and accuracy (of codec.csv
 * and metrics.csv: all), step, 1000 points, everything. `names` is separated by commas. ERR_USAGE: what is
 * wrong, and what there is. */
struct series_query {
    const char *file, *names, *x, *points, *from, *to;
};
int series_request_set(struct series_request *r, const struct series_query *q, struct err *e);

/* Whether there may be a curve of that name in the file. `what` is how messages call the name: "--y".
 * ERR_USAGE: no column has it, and the message lists them; a file with a row for each value may have any. */
int series_check_name(const char *file, const char *name, const char *what, struct err *e);

/* For series.c: which of a job's CSV files have curves, and how. */

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
