/* tracer -- writes trace.bin (shared/records/trace_file.h) while a node works: spans and messages are
 * buffered and written in batches. The file has a limit (TRACE_RECORDS_MAX); later records are only counted.
 * A file that cannot be written ends the trace, not the job. */
#ifndef PSGD_TRACER_H
#define PSGD_TRACER_H

#include "shared/base/err.h"
#include "shared/records/trace_file.h"

enum { TRACER_HELD = 4096 }; /* records, 160 KiB */

struct tracer {
    int fd; /* -1: a write failed */
    struct trace_head head;
    uint64_t step, round; /* tracer_set_step, tracer_set_round */
    uint64_t n_written;   /* records in the file */
    size_t n_held;
    struct trace_record held[TRACER_HELD];
};

int tracer_new(struct tracer **out, const char *path, int node, struct err *e);
/* Writes the buffered records and the number of dropped ones; returns that number. NULL is allowed. */
uint64_t tracer_free(struct tracer *t);

/* Records added from now on belong to that step (0: to no step), or round. NULL is allowed. */
void tracer_set_step(struct tracer *t, uint64_t step);
void tracer_set_round(struct tracer *t, uint64_t round);
/* Adds the span from `begin` to `end` (clock_now); an empty one is ignored. */
void tracer_span(struct tracer *t, enum trace_kind kind, double begin, double end);
/* Adds the seq-th message (from 1) to or from `peer`. */
void tracer_message(struct tracer *t, enum trace_kind kind, int peer, uint64_t seq, double at);

#endif
