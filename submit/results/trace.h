/* trace -- the nodes' spans and messages on one time axis (agents of other machines are asked for their
 * clocks), in the format of https://ui.perfetto.dev and chrome://tracing: one process per node, its steps and
 * its phases as two tracks, messages as arrows. */
#ifndef PSGD_SUBMIT_TRACE_H
#define PSGD_SUBMIT_TRACE_H

#include <stdio.h>

#include "shared/records/trace_file.h"
#include "submit/results/collect.h"

struct trace_node {
    int node;
    const char *role, *address;
    struct trace_head head;
    const struct trace_record *records; /* (n), borrowed */
    size_t n;
    double offset_s;      /* added to the node's times gives times of our clock */
    double uncertainty_s; /* largest error of offset_s */
};

/* Writes the downloaded traces of a job to the path of --trace, not into the folder of results. Nodes keep
 * their traces, so that a later fetch can try again: a failure is printed, and the results are incomplete.
 * ERR_NOMEM. */
int trace_collect(struct collection *c, const struct artifact *a, struct err *e);

/* Writes the document of the traces of n nodes. ERR_IO. */
int trace_write(FILE *out, const struct trace_node *nodes, size_t n, struct err *e);

#endif
