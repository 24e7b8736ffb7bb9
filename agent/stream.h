/* stream -- one reader's way through a job's events: from the journal to text/event-stream or ndjson. */
#ifndef PSGD_STREAM_H
#define PSGD_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "agent/agent.h"

static const double STREAM_QUIET_S = 15;

struct stream {
    struct agent *agent;
    char id[JOB_ID_MAX + 1];
    bool is_ndjson, is_open;
    off_t at;                       /* in the journal */
    double last_at;                 /* clock_now() of the last byte given out */
    size_t n, n_sent;               /* of `text` */
    char text[EVENT_LINE_MAX + 64]; /* one event as it goes out */
};

void stream_open(struct stream *s, struct agent *a, const char *id, uint64_t after, bool is_ndjson);
void stream_close(struct stream *s); /* fine on {0} */

/* Up to `size` bytes; 0: nothing now; -1: that was all. */
ssize_t stream_read(struct stream *s, char *buf, size_t size);

/* Whether stream_read would return something else than 0. */
bool stream_has_news(const struct stream *s);

#endif
