/* series -- curves of a job's records for a plot: of each node, and their mean, down to a number of points
 * that does not depend on the number of rows. Rows are added from any number of files (a merged one, or
 * one per node), in one pass; memory depends on the points only.
 *
 * A value of a curve is one that is in the records, or the mean of the workers' values at one step, where
 * the loss and accuracy of a mini-batch count with its samples; it is never a mean over steps, so that the
 * last loss, or the bytes of a step, are the same here and in every table. Of more rows than points only each
 * 2nd, 4th, 8th, ... is a point (of a node's rows, and of the steps that workers have in common), the last
 * one always; a node's points then have the minimum and maximum of all rows since the point before, so that
 * no outlier is lost; and a point is NaN if one of these rows is. */
#ifndef PSGD_SERIES_H
#define PSGD_SERIES_H

#include <stddef.h>
#include <stdio.h>

#include "shared/base/err.h"
#include "shared/records/series_request.h"

struct series;
int series_new(struct series **out, const struct series_request *r, struct err *e); /* ERR_NOMEM */
void series_free(struct series *s);

/* Adds the rows of a file, open or as text; `what` names it in messages. A node's rows must come in order;
 * where its time or bytes begin anew, as in a second attempt, they go on from those before. Rows without a
 * node or an x, or with one beyond 1e200, are left out. ERR_PROTOCOL: it is no such file. ERR_IO,
 * ERR_NOMEM. */
int series_read(struct series *s, int fd, const char *what, struct err *e);
int series_add(struct series *s, const char *text, size_t len, const char *what, struct err *e);

/* Writes the curves as one JSON document, in ASCII:
 *     {"file": "train", "x": "step", "names": ["loss"], "rows": 5000,
 *      "nodes": [{"node": 0, "role": "worker", "rows": 2500, "x": [..], "loss": [..], "loss_min": [..],
 *                 "loss_max": [..]}, ..],
 *      "mean": {"x": [..], "loss": [..]}}
 * without _min and _max if each row is a point; else, with "every": 4 if each 4th is. With
 * "nodes_left_out" if there are more nodes than nodes_most. null is a missing value; "nan", "inf" and
 * "-inf" are those. ERR_NOMEM. */
int series_write(FILE *out, struct series *s, struct err *e);

#endif
