/* tail -- reads what a runner has appended to a file and passes on its lines. The runner is not trusted:
 * lines over 4 KiB are dropped, and each turn reads a bounded amount, so that other work is not delayed. */
#ifndef PSGD_TAIL_H
#define PSGD_TAIL_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "agent/jobs/event.h"
#include "shared/base/err.h"

enum { TAIL_TURN_BYTES = 256 << 10 }; /* of one tail_read */

struct tail {
    bool is_open;
    int fd;
    char line[RUNNER_LINE_MAX];
    size_t n;         /* of the line that is not complete yet */
    bool is_too_long; /* bytes up to the next line feed belong to a dropped line */
    size_t n_dropped;
};

/* Takes the descriptor. */
void tail_open(struct tail *t, int fd);
void tail_close(struct tail *t);

/* Calls `line` for each complete line, without its line feed. Returns whether there may be more to read
 * now. */
bool tail_read(struct tail *t, void (*line)(void *arg, const char *text, size_t len), void *arg);

#endif
