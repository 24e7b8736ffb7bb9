/* event_stream -- a job's events for one client, from the journal, as text/event-stream or ndjson. */
#ifndef PSGD_EVENT_STREAM_H
#define PSGD_EVENT_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "agent/jobs/jobs.h"

static const double STREAM_QUIET_S = 15;

struct stream {
    struct jobs *jobs;
    char id[JOB_ID_MAX + 1];
    int attempt;
    bool is_ndjson, is_open, holds;
    off_t at;                       /* in the journal */
    double last_at;                 /* clock_now() of the last byte sent */
    size_t n, n_sent;               /* of `text` */
    char text[EVENT_LINE_MAX + 64]; /* one formatted event */
};

/* `holds`: the stream keeps the job's reservation alive; the lease is short after the last such stream is
 * closed. */
void stream_open(struct stream *s, struct jobs *jobs, const char *id, int attempt, uint64_t after,
                 bool is_ndjson, bool holds);
void stream_close(struct stream *s); /* no effect on {0} */

/* Reads up to `size` bytes and returns their number; 0: none are available now; -1: the stream has ended. */
ssize_t stream_read(struct stream *s, char *buf, size_t size);

/* Returns whether stream_read would return other than 0. */
bool stream_is_ready(const struct stream *s);

#endif
