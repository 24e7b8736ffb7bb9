/* trace -- the nodes' spans and messages on one time axis, in the format of https://ui.perfetto.dev and
 * chrome://tracing: one process per node, its steps and its phases as two tracks, messages as arrows. */
#ifndef PSGD_SUBMIT_TRACE_H
#define PSGD_SUBMIT_TRACE_H

#include <stdio.h>

#include "shared/records/trace_file.h"
#include "submit/job/job_node.h"

struct trace_node {
    int node;
    const char *role, *address;
    struct trace_head head;
    const struct trace_record *records; /* (n), borrowed */
    size_t n;
    const char *bytes; /* (len): the file that holds the records, for its owner */
    size_t len;
    double offset_s;      /* added to its times to get times of our clock */
    double uncertainty_s; /* largest error of the offset, seconds */
};

/* Finds the offset of the node's clock. Nodes with our clock have none; other agents are asked for their
 * time several times, and the quickest answer counts, uncertain by half its round trip. The clocks may have
 * drifted apart by 50 millionths of the time since the trace began, which is added to the uncertainty. */
int trace_find_offset(struct trace_node *t, struct http *h, struct job_node *n, struct err *e);

/* ERR_IO: the file could not be written. */
int trace_write(FILE *out, const struct trace_node *nodes, size_t n, struct err *e);

#endif
