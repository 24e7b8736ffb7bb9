/* run_series -- curves of the records in a folder of results. */
#ifndef PSGD_SUBMIT_RUN_SERIES_H
#define PSGD_SUBMIT_RUN_SERIES_H

#include <jansson.h>

#include "shared/records/series.h"

/* Writes the document of series_write() of the file that is asked for. ERR_NOT_FOUND: the folder has none; as
 * series_read(). */
int run_series_write(FILE *out, const char *folder, const struct series_request *r, struct err *e);
/* The same as a document, which the caller owns. */
int run_series(json_t **out, const char *folder, const struct series_request *r, struct err *e);

/* Calls `point` with x and the value of each point of a curve of a document: of `node`, an object of "nodes",
 * or "mean". Without values that are missing or not finite. */
void run_series_each(const json_t *node, const char *name, void (*point)(void *ctx, double x, double y),
                     void *ctx);

#endif
