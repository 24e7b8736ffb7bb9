/* stragglers -- how long each worker's steps take without waiting, and which worker is a straggler: slower
 * than twice the median of all workers for PACE_STEPS steps, in at least two reports of its progress one
 * after the other: nodes report at most five times a second, so a report is often about more steps than
 * these. With an even number of workers the median is the lower of the two in the middle: of two workers the
 * faster one. */
#ifndef PSGD_SUBMIT_STRAGGLERS_H
#define PSGD_SUBMIT_STRAGGLERS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct submission;

enum { PACE_STEPS = 5, PACE_REPORTS = 2, PACE_AVERAGED = 100 };

struct pace {      /* of one worker; {0}: nothing is known */
    bool is_known; /* it has reported once */
    int64_t step;  /* of the last report, with the time until then */
    double busy_s;
    double step_s;     /* seconds per step between the last two; 0: not known */
    int n_slow;        /* reports in a row with more than twice the median */
    int64_t slow_from; /* the step with which these began */
    int64_t since;     /* from this step on it was found to be a straggler; 0: it was not */
    double median_s;   /* in the last report by which it was one */
    double found_s;    /* its step_s there */
};

/* Looks at the progress that has been reported; names each new straggler in the log. */
void pace_look(struct submission *s);
/* Of a job that nobody has watched: compares the averages over its steps, from PACE_AVERAGED steps on.
 * A straggler is one since step 1. */
void pace_of_all(struct submission *s);
/* "node(2) is slower than twice the median since step 15: 180 ms a step, the median 60 ms"; returns whether
 * it is a straggler. */
bool pace_text(char *out, size_t size, const struct submission *s, size_t node);
/* [{"node","since_step","step_s","median_s"}]; NULL: no memory. */
json_t *pace_json(const struct submission *s);

#endif
