/* report -- the runner's lines to its agent: events.jsonl in the working folder, one write a line
 * (docs/protocol.md §2). A line that cannot be written is lost without harm, records are the results; for
 * the last one, which says how the node ended, there is room on a full disk, too. */
#ifndef PSGD_REPORT_H
#define PSGD_REPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/runner/exchange/exchange.h"
#include "shared/err.h"
#include "shared/phase.h"

struct report {
    int fd;
    double last_progress; /* clock_now */
};

struct report_progress {
    int epoch, epochs;
    uint64_t step, steps;
    double loss, accuracy; /* nan: none yet */
    struct exchange_totals traffic;
    double spent[N_PHASES]; /* seconds */
};

int report_open(struct report *r, struct err *e);
void report_close(struct report *r);

/* With what this node computes. */
void report_engine(struct report *r, const char *text);
void report_ready(struct report *r, const char *codec_sha256, uint64_t n_params);
bool report_is_due(struct report *r, double now); /* at most five progress lines a second */
void report_progress(struct report *r, const struct report_progress *p);
void report_eval(struct report *r, const struct report_progress *p);
/* A sentence for people, in the node's log and by way of job_submit: "this step was left out". */
void report_warn(struct report *r, const char *text);
/* What an error that ends a node's work is called. */
struct report_ending {
    int code;
    const char *state, *reason;
};
const struct report_ending *report_ending(int code);

/* The last line. `state` is succeeded, failed or cancelled. */
void report_end(struct report *r, const char *state, const char *reason, const char *message);

#endif
