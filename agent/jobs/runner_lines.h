/* runner_lines -- the lines that a runner appends to its file of events: reading them (tail), and which of
 * them the agent copies to the journal (struct line_limit). The runner is not trusted. */
#ifndef PSGD_RUNNER_LINES_H
#define PSGD_RUNNER_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "agent/jobs/event.h"
#include "shared/base/err.h"

/* Lines over 4 KiB are dropped, and each turn reads a bounded amount, so that other work is not delayed. */
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

/* A codec can write any number of lines; the agent must stay as quick as without, and the journal bounded. So
 * a job's lines cost tokens of a bucket: a runner's own, some five a second, always pass; of a flood a sample
 * does. The latest progress and the latest evaluation are held and pass later. The bucket fills the slower,
 * the fuller the journal is, so that progress is shown to the end of the longest job. No clock, no file. */
enum { LINE_RATE = 50, LINE_BURST = 200 }; /* lines a second, and at once */

enum held_kind { HELD_PROGRESS, HELD_EVAL, N_HELD, HELD_OTHER = N_HELD };

struct held_line {
    char text[RUNNER_LINE_MAX];
    size_t len; /* 0: none */
};

/* {0} is that of a job without lines. */
struct line_limit {
    double tokens, filled_at; /* filled_at 0: not yet */
    struct held_line held[N_HELD];
    uint64_t n_seen;    /* lines so far, whether or not they were taken */
    uint64_t n_dropped; /* of these, for lack of a token */
};

/* The beginning of a line shows its kind, which costs less than parsing it: docs/protocol.md section 2. */
bool runner_line_is(const char *name, const char *text, size_t len);

/* Counts a line. Returns whether it is to be taken now: a token was there. Else it is held or dropped.
 * `room`: the share of the journal that is free, 0 to 1. `now`: clock_now. */
bool line_limit_offer(struct line_limit *in, const char *text, size_t len, double room, double now);

/* Returns a held line that is to be taken now and moves it to `out`, progress first; false: there is
 * none, or no token, which `is_last` does without. */
bool line_limit_take_held(struct line_limit *in, struct held_line *out, double room, double now,
                          bool is_last);

/* Lines that are held. */
uint64_t line_limit_n_held(const struct line_limit *in);

#endif
