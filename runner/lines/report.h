/* report -- the runner's lines to its agent: events.jsonl in the working folder, one write per line
 * (docs/protocol.md §2). A line that cannot be written is dropped, because the records have the results,
 * too. Disk space is reserved only for the last line, which reports how the node ended. */
#ifndef PSGD_REPORT_H
#define PSGD_REPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "runner/exchange/exchange.h"
#include "shared/base/crypto.h"
#include "shared/base/err.h"
#include "shared/job/comm.h"
#include "shared/job/stop.h"
#include "shared/sandbox/sandbox.h"

struct report {
    int fd;
    double last_progress; /* clock_now */
};

struct report_progress {
    int epoch, epochs;
    uint64_t step, steps, samples;
    double loss, accuracy; /* nan: none yet */
    struct exchange_totals traffic;
    double spent[N_PHASES]; /* seconds */
    int waits_for;          /* STALL_NO_NODE: it waits for no node, or for less than a second */
};

int report_open(struct report *r, struct err *e);
void report_close(struct report *r);

/* Reports the compute engine. */
void report_engine(struct report *r, const char *text);
/* Reports the level at which the codec is isolated. ERR_NOMEM, ERR_NOSPACE, ERR_IO: the line is not
 * written. */
int report_isolation(struct report *r, const struct sandbox *s, struct err *e);
/* Reports that the node is prepared, and the public half of its data key: the agent starts it only after this
 * line. The same errors. */
int report_ready(struct report *r, const char *codec_sha256, uint64_t n_params,
                 const uint8_t data_key[SHA256_BYTES], struct err *e);
bool report_is_due(struct report *r, double now); /* at most five progress lines a second */
void report_progress(struct report *r, const struct report_progress *p);
void report_eval(struct report *r, const struct report_progress *p);
/* The model after this step has been written; or it has not, and `error` has the reason. */
void report_model(struct report *r, uint64_t step, const char *error);
void report_stopped(struct report *r, const struct stop *s);
/* SHA-256 of a worker's final weights, by which nodes are compared, and exchange_combined_nothing(). */
void report_result(struct report *r, const char *params_sha256, bool combined_nothing);
/* A warning for the user, in the node's log and shown by job_submit, such as "this step was left out". */
void report_warn(struct report *r, const char *text);
/* The state and the reason with which a node ends after an error. */
struct report_ending {
    int code;
    const char *state, *reason;
};
const struct report_ending *report_ending(int code);

/* The last line. `state` is succeeded, failed or cancelled. */
void report_end(struct report *r, const char *state, const char *reason, const char *message);

#endif
