#include "agent/jobs/counts.h"

#include <stdio.h>
#include <string.h>

#include "shared/job/reason.h"

#define OTHER "other"

const double histogram_job_bounds[COUNTS_BOUNDS] = {1,    5,     15,    60,    300,   900,
                                                    3600, 10800, 43200, 86400, 604800};
const double histogram_request_bounds[COUNTS_BOUNDS] = {0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05,
                                                        0.1,    0.5,   1,      5,     30};

/* All that the agent answers with; after them, 0 for any other. */
static const int statuses[COUNTS_STATUSES] = {200, 201, 202, 204, 206, 304, 400, 401, 403, 404, 405,
                                              409, 410, 411, 413, 415, 422, 429, 500, 503, 504, 507};

static void observe(struct histogram *h, const double bounds[COUNTS_BOUNDS], double v)
{
    int i = 0;

    if (!(v >= 0)) /* the wall clock was set back */
        v = 0;
    while (i < COUNTS_BOUNDS && v > bounds[i])
        i++;
    h->n[i]++;
    h->sum += v;
}

uint64_t histogram_count(const struct histogram *h)
{
    uint64_t n = 0;

    for (int i = 0; i <= COUNTS_BOUNDS; i++)
        n += h->n[i];
    return n;
}

const char *counts_codec(const struct counts *c, size_t i)
{
    return i < c->n_codecs ? c->codecs[i].name : i == COUNTS_CODECS ? OTHER : NULL;
}

static struct count_codec *codec_of(struct counts *c, const char *name)
{
    size_t i = 0;

    if (strcmp(name, OTHER) == 0)
        return &c->codecs[COUNTS_CODECS];
    while (i < c->n_codecs && strcmp(c->codecs[i].name, name) != 0)
        i++;
    if (i == c->n_codecs && i < COUNTS_CODECS) {
        snprintf(c->codecs[i].name, sizeof c->codecs[i].name, "%s", name);
        c->n_codecs++;
    }
    return &c->codecs[i];
}

/* Index 0 is for jobs that end without a reason, 1 for reasons that this version does not know. */
const char *counts_reason(size_t i)
{
    return i == 0 ? "" : i == 1 ? OTHER : i - 2 < (size_t)n_reasons ? reasons[i - 2].name : NULL;
}

static size_t reason_of(const char *name)
{
    size_t i = COUNTS_REASONS - 1;

    while (i > 1 && !(counts_reason(i) && strcmp(counts_reason(i), name) == 0))
        i--;
    return name[0] ? i : 0;
}

/* A runner is not trusted: its numbers may fall. */
static void add_growth(uint64_t *sum, uint64_t before, uint64_t now)
{
    if (now > before)
        *sum += now - before;
}

static void count_progress(struct counts *c, struct count_role *r, const struct job *before,
                           const struct job *now)
{
    if (!now->spec.executor) /* whose steps are a percentage */
        add_growth(&r->steps, before->step, now->step);
    add_growth(&r->samples, before->samples, now->samples);
    add_growth(&r->sent_bytes, before->comm.sent_bytes, now->comm.sent_bytes);
    add_growth(&r->recv_bytes, before->comm.recv_bytes, now->comm.recv_bytes);
    add_growth(&r->raw_bytes, before->comm.raw_bytes, now->comm.raw_bytes);
    for (int p = 0; p < N_STEP_PHASES; p++)
        if (now->comm.seconds[p] > before->comm.seconds[p])
            c->phase_s[p] += now->comm.seconds[p] - before->comm.seconds[p];
}

void counts_event(struct counts *c, const struct event *ev, const struct job *before, const struct job *now)
{
    struct count_codec *k = codec_of(c, now->spec.codec);

    count_progress(c, &k->roles[strcmp(now->spec.role, "server") == 0], before, now);
    if (before->state == JOB_PENDING && now->state == JOB_PREPARING)
        observe(&k->queued, histogram_job_bounds, ev->at - now->created_at);
    if (!job_state_is_terminal(now->state)) /* after that there are no events */
        return;
    k->ends[now->state - JOB_SUCCEEDED][reason_of(now->reason)]++;
    if (now->started_at > 0)
        observe(&k->duration, histogram_job_bounds, now->finished_at - now->started_at);
}

int counts_status(size_t i)
{
    return statuses[i];
}

static size_t status_index(int status)
{
    size_t i = 0;

    while (i < COUNTS_STATUSES - 1 && statuses[i] != status && statuses[i] != 0)
        i++;
    return i;
}

void counts_request(struct counts *c, size_t route, size_t method, int status, double seconds)
{
    c->requests[route][method][status_index(status)]++;
    observe(&c->request_s[route][method], histogram_request_bounds, seconds);
}
