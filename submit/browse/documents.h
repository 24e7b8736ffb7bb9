/* documents -- the JSON documents that the page asks for, of a job that is shown. Whatever its files say,
 * they are valid, and of bounded size. */
#ifndef PSGD_BROWSE_DOCUMENTS_H
#define PSGD_BROWSE_DOCUMENTS_H

#include <stdio.h>

#include "shared/records/series.h"
#include "submit/browse/shown.h"

/* A job's line in the list: {"id", "name", "state", ...}. `id` is that of its route; `folder`: NULL: none.
 * NULL: no memory. */
json_t *document_line(const json_t *run, const char *id, const char *folder, bool can_cancel);

/* {"job": its line, "nodes", "settings", "versions", "classes", "warnings", "time", "bound_by", "files",
 * "codec_source"}. Takes ownership of `line`. NULL: no memory. */
json_t *document_job(const struct shown *s, json_t *line);

/* Of its records. ERR_NOT_FOUND: it has none of these. */
int document_series(FILE *out, const struct shown *s, const struct series_request *r, struct err *e);
int document_peers(json_t **out, const struct shown *s, struct err *e);
int document_histogram(json_t **out, const struct shown *s, const char *name, struct err *e);
int document_confusion(json_t **out, const struct shown *s, struct err *e);

struct log_query {
    const char *node, *level, *q; /* NULL: any */
    const char *after;            /* the `next` of an earlier answer, whose lines are left out; NULL: none */
    size_t limit;                 /* at most so many lines, up to 10,000; 0: 500 */
    bool is_tail;                 /* the last ones of those that fit, instead of the first */
};
/* {"lines": [{"n", "time", "level", "node", "text"}], "next", "total"}: `n` counts the lines of a node;
 * `next` is the `after` of the lines that were too many, "NODE:N", and stays right while logs grow; `total`
 * counts all lines. ERR_USAGE: `after` is none. */
int document_log(json_t **out, const struct shown *s, const struct log_query *q, struct err *e);

#endif
