/* tracer -- writes trace.bin (shared/trace_file.h) while a node works: spans and messages are held in
 * memory and written so many at a time. The file has an end (TRACE_RECORDS_MAX); what comes later is only
 * counted. A file that cannot be written ends the trace, not the job. */
#ifndef PSGD_TRACER_H
#define PSGD_TRACER_H

#include "shared/err.h"
#include "shared/trace_file.h"

enum { TRACER_HELD = 4096 }; /* records, 160 KiB */

struct tracer {
    int fd; /* -1: it could not be written any more */
    struct trace_head head;
    uint64_t step, round; /* that what is written now belongs to */
    uint64_t n_written;   /* records in the file */
    size_t n_held;
    struct trace_record held[TRACER_HELD];
};

int tracer_new(struct tracer **out, const char *path, int node, struct err *e);
/* Writes what is held and how many were dropped; returns that number. NULL is fine. */
uint64_t tracer_free(struct tracer *t);

/* From `begin` to `end` (clock_now); an empty span is none. */
void tracer_span(struct tracer *t, enum trace_kind kind, double begin, double end);
/* The seq-th message (from 1) to or from `peer`. */
void tracer_message(struct tracer *t, enum trace_kind kind, int peer, uint64_t seq, double at);

#endif
