/* trace -- the nodes' spans and messages on one time axis, in the form that https://ui.perfetto.dev and
 * chrome://tracing read: one process a node, its steps and its phases as two tracks, messages as arrows. */
#ifndef PSGD_SUBMIT_TRACE_H
#define PSGD_SUBMIT_TRACE_H

#include <stdio.h>

#include "shared/trace_file.h"
#include "submit/node.h"

struct trace_node {
    int node;
    const char *role, *address;
    struct trace_head head;
    const struct trace_record *records; /* (n), borrowed */
    size_t n;
    const char *bytes; /* (len): the file they lie in, for its owner */
    size_t len;
    double offset_s;      /* to be added to its times: its clock on ours */
    double uncertainty_s; /* by so much the offset may be wrong */
};

/* Finds the offset of the node's clock. Nodes with our clock have none; of others the
 * agent is asked for the time, and the answer that came quickest counts, uncertain by half its way. Since
 * the trace began clocks may have drifted apart by 50 millionths of the time, which is uncertain too. */
int trace_find_offset(struct trace_node *t, struct http *h, struct node *n, struct err *e);

/* ERR_IO: it could not be written. */
int trace_write(FILE *out, const struct trace_node *nodes, size_t n, struct err *e);

#endif
