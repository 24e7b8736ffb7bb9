/* classic_file -- the names and the files of a style of Parallel-SGD, and the rows that they are made from.
 * Rows of a result's CSV file come grouped by node, but not always in one group (a job in several attempts),
 * and a later group is appended. All have their names when all are written: each is whole or as it was. */
#ifndef PSGD_SUBMIT_CLASSIC_FILE_H
#define PSGD_SUBMIT_CLASSIC_FILE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

#include "shared/records/artifacts.h"
#include "shared/records/record_scan.h"
#include "submit/files/appender.h"
#include "submit/job/submission.h"

enum { CLASSIC_COLUMNS = 8, CLASSIC_NAME = 256, CLASSIC_CELL = 32 };

/* In names: {n}odes, {r}edundancy, {id} of the node, {epoch}, the job's {name}, {codec}: a letter for each
 * dense layer, {time} and {date} of the start, local as in Parallel-SGD. */
struct style {
    const char *name;
    struct csv {
        enum artifact_id from;
        const char *file, *header, *columns[CLASSIC_COLUMNS]; /* of `from`; end with NULL */
    } csv[2];
    const char *model;                            /* NULL: none */
    const char *log, *title, *epoch, *submit_log; /* of a line: title, then epoch within one */
    const char *colon;                            /* between the time and the text of a line */
};

struct classic {
    const struct submission *s;
    const json_t *run; /* run.json */
    const struct style *style;
    const char *letters; /* for {codec} */
    bool *is_begun;      /* (node_count) of the kind of file being written */
    struct appender files;
    FILE *f; /* of `files`, that of `node`; NULL: none was chosen */
    int node;
};

/* The node's object in run.json. */
const json_t *classic_node(const struct classic *c, int node);
/* When the node started, as seconds since 1970. */
double classic_started(const struct classic *c, int node);

/* Writes the name, with values for what is in braces. */
void classic_fill(char out[CLASSIC_NAME], const char *form, const struct classic *c, int node, double wall,
                  const char *epoch);

/* Makes c->f the node's file of this name. *is_new: nothing is in it yet. ERR_IO. */
int classic_turn(struct classic *c, bool *is_new, const char *form, int node, struct err *e);

/* Calls `use` with each row of a CSV file of the results that is a worker's. A file that is not there has
 * none. */
typedef int classic_use(struct classic *c, int node, const struct record_text *cells, void *with,
                        struct err *e);
int classic_each_row(struct classic *c, enum artifact_id id, classic_use *use, void *with, struct err *e);

/* The training log of each worker (classic_log.c). */
int classic_write_logs(struct classic *c, struct err *e);

#endif
