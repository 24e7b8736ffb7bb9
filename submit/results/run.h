/* run -- a job's results, read back from their folder: the run that a command names, its note and tags, the
 * rows of its CSV files, and its curves. Anybody may have written the folder, so links and pipes in it are
 * treated as missing files (submit/files/untrusted_folder.h). */
#ifndef PSGD_SUBMIT_RUN_H
#define PSGD_SUBMIT_RUN_H

#include <jansson.h>
#include <limits.h>

#include "shared/records/artifacts.h"
#include "shared/records/record.h"
#include "shared/records/series.h"

struct run {
    char folder[PATH_MAX]; /* absolute */
    json_t *doc;           /* its run.json; owned */
};

/* Finds the run of a name: the folder of its results if a file of that name exists, else a job's id, a unique
 * prefix of one, or a job's name; NULL: the latest job. ERR_NOT_FOUND: no such job, or its folder lacks
 * results; ERR_USAGE: several jobs match; ERR_CONFIG: an invalid run.json. */
int run_find(struct run *r, const char *name, struct err *e);
/* Finds n runs; a run that several names name is listed once. *out: *n_out runs, for runs_free(). */
int runs_find(struct run **out, size_t *n_out, const char *const *names, size_t n, struct err *e);
void run_clear(struct run *r);
void runs_free(struct run *runs, size_t n);

/* The note and tags of a run, of its run.json's facts or of those in the index of jobs: "#TAG #TAG  NOTE",
 * without control characters, cut to `size`; "": there are none. Returns `out`. */
enum { RUN_LABELS_MAX = 1024 };
const char *run_labels(char *out, size_t size, const json_t *facts);

/* Calls `row` with the cells of each row of a CSV file: one cell for each column of the artifact, in the
 * artifact's order, whatever the order in the file; empty if the file lacks the column. An error of `row`
 * ends the reading. A missing file has no rows. Skips an unfinished last row, and rows that a strict scan
 * refuses. ERR_IO; ERR_PROTOCOL: the file lacks the column "node", or exceeds a limit of record.h. */
int run_rows(const char *folder, const struct artifact *a,
             int (*row)(void *ctx, const struct record_text *cells, struct err *e), void *ctx, struct err *e);
/* A cell's number; NAN: the cell is empty or no number. */
double run_number(const struct record_text *cell);

/* Writes the document of series_write() of the requested file. ERR_NOT_FOUND: the folder lacks the file;
 * otherwise the errors of series_read(). */
int run_series_write(FILE *out, const char *folder, const struct series_request *r, struct err *e);
/* Sets *out to that document, which the caller owns. */
int run_series(json_t **out, const char *folder, const struct series_request *r, struct err *e);
/* Calls `point` with x and y of each point of the curve `name` of `node`: an element of the document's
 * "nodes", or its "mean". Skips points without a finite value. */
void run_series_each(const json_t *node, const char *name, void (*point)(void *ctx, double x, double y),
                     void *ctx);

/* The named values in one row of a CSV file, for other programs that show curves. */
enum { SCALARS_MAX = 8, SCALAR_TAG = 96 };
struct scalars {
    int node;
    uint64_t step;
    double time_s; /* since training began on this node; in a simulation, simulated */
    size_t n;
    struct {
        char tag[SCALAR_TAG]; /* "eval/accuracy": letters, digits, ' ', '-', '_', '.' and '/' */
        double value;         /* may be nan or infinite */
    } at[SCALARS_MAX];
};
typedef int run_scalars_use(const struct scalars *s, void *with, struct err *e);
/* Calls `use` with each row of train.csv, eval.csv, metrics.csv and codec.csv that has values, until `use`
 * fails. Errors as of run_rows(). */
int run_scalars(const char *folder, run_scalars_use *use, void *with, struct err *e);

/* "worker-0", "ps-1" */
enum { RUN_NODE_NAME = 24 };
const char *run_node_name(char out[RUN_NODE_NAME], int node);
/* The start of a node of run.json, else the job's submission, in seconds since 1970; 0: neither is known. */
double run_node_began(const json_t *doc, int node);

#endif
