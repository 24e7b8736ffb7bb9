/* event_log -- the events of all nodes in one file, sorted by time, each line with its node. */
#ifndef PSGD_SUBMIT_EVENT_LOG_H
#define PSGD_SUBMIT_EVENT_LOG_H

#include <stdbool.h>
#include <stddef.h>

#include "shared/base/err.h"

enum { EVENT_LOG_MAX = 256 << 20 }; /* bytes kept in memory, of all nodes together */

struct event_log {
    struct event_line *lines;
    size_t n, room, bytes;
    size_t max; /* 0: EVENT_LOG_MAX */
};

/* Adds the lines of one node's events; skips lines that are no JSON object. Returns false if the rest does
 * not fit. */
bool event_log_add(struct event_log *l, int node, const char *text, size_t len);
int event_log_write(struct event_log *l, int fd, const char *path, struct err *e);
void event_log_clear(struct event_log *l);

#endif
