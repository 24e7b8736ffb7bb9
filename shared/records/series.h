/* series -- curves of a job's records for a plot: one for each node, and their mean, of a number of points
 * that does not depend on the number of rows. Rows are added from any number of files (a merged one, or one
 * per node), in one pass; memory depends on the points only.
 *
 * A value of a curve is a value of the records, or the mean of the workers' values at one step, in which the
 * loss and accuracy of a mini-batch count with its samples. It is never a mean over steps, so that the last
 * loss, or the bytes of a step, are the same here and in every table. If there are more rows than points,
 * each 2nd, 4th, 8th, ... row is a point (of a node's rows, and of the steps that workers have in common),
 * and the last row always is. A node's points then have the minimum and maximum of all rows since the point
 * before, so that no outlier is lost, and a point is NaN if one of these rows is. */
#ifndef PSGD_SERIES_H
#define PSGD_SERIES_H

#include <stddef.h>
#include <stdio.h>

#include "shared/base/err.h"
#include "shared/records/artifacts.h"

enum series_x {
    SERIES_STEP,
    SERIES_EPOCH,  /* with the part of the epoch that is done */
    SERIES_TIME,   /* seconds since training began on the node; in a simulation, simulated seconds */
    SERIES_BYTES,  /* sent and received by the node: in train.csv those of the steps that have a row */
    SERIES_TOKENS, /* of text, in the steps of all workers */
    N_SERIES_X
};

/* The points of all nodes together are bounded, too: of many nodes each has fewer points, at least 8. */
enum {
    SERIES_NAMES = 16,
    SERIES_NAME = 64, /* bytes */
    SERIES_POINTS = 100000,
    SERIES_POINTS_IN_ALL = 1 << 16
};

/* The curves to make; series_request_set() fills it. */
struct series_request {
    int file; /* enum artifact_id: train, eval, codec or metrics */
    enum series_x x;
    size_t points, points_in_all; /* of a node, of all nodes together */
    double from, to;              /* the range of x */
    size_t nodes_most;            /* curves that are written: of the first nodes; the mean is over all */
    size_t n_names;               /* 0: every value that occurs, in codec.csv and metrics.csv */
    char names[SERIES_NAMES][SERIES_NAME];
};

/* Texts of options or of a URL's query. Defaults, where a text is NULL: train; the file's loss and accuracy
 * (of codec.csv and metrics.csv: all values); step; 1000 points; any x. `names` is separated by commas. */
struct series_query {
    const char *file, *names, *x, *points, *from, *to;
};
/* ERR_USAGE: a text is invalid; the message has the valid ones. */
int series_request_set(struct series_request *r, const struct series_query *q, struct err *e);

/* Checks that the file may have a curve of that name: a file with a column for each value has the name as a
 * column, a file with a row for each value may have any name. `what` precedes the name in messages: "--y".
 * ERR_USAGE: it may not; the message lists the columns. */
int series_check_name(const char *file, const char *name, const char *what, struct err *e);

struct series;
int series_new(struct series **out, const struct series_request *r, struct err *e); /* ERR_NOMEM */
void series_free(struct series *s);

/* Adds the rows of a file, open or as text; `what` names it in messages. A node's rows must come in order. If
 * its time or bytes start again from 0, as in a second attempt, they are added to those before. Rows without
 * a node or an x, or with an x beyond 1e200, are left out. ERR_PROTOCOL: the file lacks a column that is
 * needed. ERR_IO, ERR_NOMEM. */
int series_read(struct series *s, int fd, const char *what, struct err *e);
int series_add(struct series *s, const char *text, size_t len, const char *what, struct err *e);

/* Writes the curves as one JSON document, in ASCII:
 *     {"file": "train", "x": "step", "names": ["loss"], "rows": 5000,
 *      "nodes": [{"node": 0, "role": "worker", "rows": 2500, "x": [..], "loss": [..], "loss_min": [..],
 *                 "loss_max": [..]}, ..],
 *      "mean": {"x": [..], "loss": [..]}}
 * without _min and _max if each row is a point, else with "every": 4 if each 4th row is; with
 * "nodes_left_out" if there are more nodes than nodes_most. A missing value is null; values that are not
 * finite are the texts "nan", "inf" and "-inf". ERR_NOMEM. */
int series_write(FILE *out, struct series *s, struct err *e);

#endif
