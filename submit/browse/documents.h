/* documents -- a job as the page shows it: its run.json and its files, which anybody may have written, and
 * the JSON documents made of them, which are valid and of bounded size whatever the files contain.
 * documents.c describes the job, document_records.c has curves and matrices of its CSV files, document_log.c
 * its log. */
#ifndef PSGD_BROWSE_DOCUMENTS_H
#define PSGD_BROWSE_DOCUMENTS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

#include "shared/base/err.h"
#include "shared/records/artifacts.h"
#include "shared/records/series.h"

/* A job whose results are in a folder, or a running job: then `run` is what its agents report, and the folder
 * has copies of its nodes' files so far, in a subfolder for each attempt of each node. */
struct shown {
    json_t *run;      /* in the form of run.json; owned */
    char *path;       /* of its folder; owned; NULL: it has no files yet */
    int dir;          /* the folder, owned; -1: none */
    bool is_live;     /* a running job */
    struct err stale; /* of a running job: why its files are not up to date; code 0: they are */
};

/* out: the subfolder of an attempt of a node. Each attempt begins the node's files anew. */
enum { SHOWN_FOLDER = 32 };
void shown_node_folder(char out[SHOWN_FOLDER], int node, int attempt);
void shown_live_folder(char out[SHOWN_FOLDER], const json_t *node); /* of an element of the run's nodes */

/* Opens a folder of results. Call shown_clear() also after an error. ERR_NOT_FOUND, ERR_IO, ERR_CONFIG: the
 * folder has no valid run.json; ERR_NOMEM. */
int shown_open(struct shown *s, const char *path, struct err *e);
void shown_clear(struct shown *s); /* {0} is not valid; {.dir = -1} is empty */

/* Opens each file of this path, of a running job one of each node in the last attempt, and calls `take`. A
 * missing file is no error. `node`: the node whose file it is; SHOWN_ALL: it is of all nodes. */
enum { SHOWN_ALL = 1 << 30 };
int shown_each(const struct shown *s, const char *path,
               int (*take)(void *ctx, int fd, int node, struct err *e), void *ctx, struct err *e);

/* A string of an untrusted document; NULL: there is none. */
const char *shown_text(const json_t *o, const char *key);

/* A job's line in the list of jobs: {"id", "name", "state", ...}, without what the job lacks. `id`: as in
 * its path; `folder` NULL: none. NULL: no memory. */
json_t *document_line(const json_t *run, const char *id, const char *folder, bool can_cancel);

/* {"job": its line, "nodes", "settings", "versions", "classes", "warnings", "time", "bound_by", "files",
 * "codec_source"}. Takes ownership of `line`. NULL: no memory. */
json_t *document_job(const struct shown *s, json_t *line);

/* Documents of the job's records. ERR_NOT_FOUND: it has no such records. */
int document_series(FILE *out, const struct shown *s, const struct series_request *r, struct err *e);
int document_peers(json_t **out, const struct shown *s, struct err *e);
int document_histogram(json_t **out, const struct shown *s, const char *name, struct err *e);
int document_confusion(json_t **out, const struct shown *s, struct err *e);
/* {"samples": [{"time_s", "epoch", "step", "prompt", "text"}]}, the last ones, the earliest first. */
int document_samples(json_t **out, const struct shown *s, struct err *e);

struct log_query {
    const char *node, *level, *q; /* q: a part of the line's text. NULL: any */
    const char *after; /* `next` of an earlier answer, whose lines are skipped; NULL: none is skipped */
    size_t limit;      /* the largest number of lines, up to 10,000; 0: 500 */
    bool is_tail;      /* of more matching lines than `limit` the last ones; else the first */
};
/* {"lines": [{"n", "time", "level", "node", "text"}], "next", "total"}. `n` numbers the lines of a node.
 * `next`, "NODE:N", is the `after` of the next answer, and stays right while logs grow; null: there are no
 * more lines. `total` counts all lines. ERR_USAGE: an invalid `after`. */
int document_log(json_t **out, const struct shown *s, const struct log_query *q, struct err *e);

#endif
