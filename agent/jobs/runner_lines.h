/* runner_lines -- the lines that a runner appends to its file of events: struct tail reads them, struct
 * line_limit decides which of them the agent copies to the journal. The runner is not trusted. */
#ifndef PSGD_RUNNER_LINES_H
#define PSGD_RUNNER_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "agent/jobs/event.h"
#include "shared/base/err.h"

/* Lines over 4 KiB are dropped. One tail_read takes a bounded number of bytes, so that other work is not
 * delayed. */
enum { TAIL_TURN_BYTES = 256 << 10 };

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

/* A token bucket for the lines of a job: a codec can write any number of them, and must neither slow the
 * agent down nor fill the journal. A runner's own lines, about five a second, always pass; of a flood only a
 * sample passes. The latest progress and the latest evaluation of a flood are held and pass later. The first
 * line of each fact passes without a token: a runner states it once. The fuller the journal is, the slower
 * the bucket fills, so that progress is visible to the end of the longest job. No clock, no file. */
enum { LINE_RATE = 50, LINE_BURST = 200 }; /* lines a second, and at once */

enum held_kind { HELD_PROGRESS, HELD_EVAL, N_HELD, HELD_OTHER = N_HELD };

enum { N_FACT_LINES = 4 }; /* engine, isolation, stopped, result */

struct held_line {
    char text[RUNNER_LINE_MAX];
    size_t len; /* 0: none */
};

/* {0} is the limit of a job that has no lines yet. */
struct line_limit {
    double tokens, filled_at; /* filled_at 0: not yet */
    struct held_line held[N_HELD];
    bool has_fact[N_FACT_LINES];
    uint64_t n_seen;    /* lines so far */
    uint64_t n_dropped; /* lines that were dropped for lack of a token */
};

/* Returns whether the line is an event of this name, by the beginning that docs/protocol.md section 2
 * prescribes: this costs less than parsing it. */
bool runner_line_is(const char *name, const char *text, size_t len);

/* Returns whether the line is one of the facts. */
bool runner_line_is_fact(const char *text, size_t len);

/* Counts a line. Returns whether it passes now; otherwise it is held or dropped. `room`: the free share of
 * the journal, 0 to 1. `now`: clock_now(). */
bool line_limit_offer(struct line_limit *in, const char *text, size_t len, double room, double now);

/* Moves a held line to `out`, progress first, if there is one and a token for it; `is_last`: without a token.
 * Returns whether it has. */
bool line_limit_take_held(struct line_limit *in, struct held_line *out, double room, double now,
                          bool is_last);

/* Returns how many lines are held. */
uint64_t line_limit_n_held(const struct line_limit *in);

#endif
