/* scalars -- the curves in the records of a job, for programs that show curves: named values over the
 * steps of each node. */
#ifndef PSGD_SUBMIT_SCALARS_H
#define PSGD_SUBMIT_SCALARS_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "shared/base/err.h"

enum { SCALARS_MAX = 8, SCALAR_TAG = 96 };

/* Of one row of a CSV file. */
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

typedef int scalars_use(const struct scalars *s, void *with, struct err *e);

/* Calls `use` with each row of train.csv, eval.csv, metrics.csv and codec.csv in a folder of results that
 * has values, until it fails. ERR_IO; ERR_PROTOCOL: such a file has other columns. */
int scalars_each(const char *folder, scalars_use *use, void *with, struct err *e);

/* "worker-0", "ps-1" */
enum { SCALARS_NODE = 24 };
const char *scalars_node(char out[SCALARS_NODE], int node);

/* When a node of run.json, or the job, began, as seconds since 1970; 0 if neither is known. */
double scalars_began(const json_t *run, int node);

#endif
