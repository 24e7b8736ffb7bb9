/* counts -- what the agent has counted since it started, for GET /metrics: jobs by their events, requests by
 * their responses. No I/O, no clock. The size is fixed: names that clients and runners choose, of a codec or
 * a reason, cannot add to it. */
#ifndef PSGD_COUNTS_H
#define PSGD_COUNTS_H

#include "agent/jobs/job.h"

enum {
    COUNTS_CODECS = 64, /* all codecs after so many count as one */
    COUNTS_REASONS = 48,
    COUNTS_ROUTES = 64, /* with 0 for requests that no route takes */
    COUNTS_METHODS = 6, /* with the last one for any other */
    COUNTS_STATUSES = 32,
    COUNTS_BOUNDS = 11
};

/* Counts of observations up to each bound; the last count is of those beyond the last bound. */
struct histogram {
    uint64_t n[COUNTS_BOUNDS + 1];
    double sum;
};

extern const double histogram_job_bounds[COUNTS_BOUNDS],
    histogram_request_bounds[COUNTS_BOUNDS]; /* seconds */

/* Of the jobs of one codec. */
struct count_codec {
    char name[sizeof((struct job_spec *)0)->codec];
    struct count_role {
        uint64_t steps, samples, sent_bytes, recv_bytes, raw_bytes;
    } roles[2];                        /* worker, server */
    struct histogram queued, duration; /* seconds until it had a slot; seconds from its start to its end */
    uint64_t ends[N_JOB_STATES - JOB_SUCCEEDED][COUNTS_REASONS]; /* by counts_reason */
};

/* {0} has counted nothing. */
struct counts {
    struct count_codec codecs[COUNTS_CODECS + 1]; /* the last one: of all other codecs */
    size_t n_codecs;
    double phase_s[N_STEP_PHASES];
    uint64_t requests[COUNTS_ROUTES][COUNTS_METHODS][COUNTS_STATUSES];
    struct histogram request_s[COUNTS_ROUTES][COUNTS_METHODS];
};

/* Counts an event that has changed the job from `before` to `now`. */
void counts_event(struct counts *c, const struct event *ev, const struct job *before, const struct job *now);

/* Counts a request that was answered `seconds` after its head had arrived; route and method are indices of
 * api.h. */
void counts_request(struct counts *c, size_t route, size_t method, int status, double seconds);

/* Return the labels of indices; NULL or 0: the index is not used. */
const char *counts_codec(const struct counts *c, size_t i);
const char *counts_reason(size_t i);
int counts_status(size_t i);

uint64_t histogram_count(const struct histogram *h); /* of all observations */

#endif
