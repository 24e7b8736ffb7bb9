/* watch: waits until every node has ended. The streams of events report progress; an agent that stops
 * answering gets time to come back, a failed node decides the job, and the others are cancelled. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/clock.h"
#include "submit/job/outcome.h"
#include "submit/job/stragglers.h"
#include "submit/stages/progress_bar.h"
#include "submit/stages/retry.h"
#include "submit/stages/silence.h"
#include "submit/stages/stages.h"
#include "submit/terminal/console.h"
#include "submit/terminal/text.h"

/* After the first failure: time for the other nodes to report their own reasons. */
static const double own_reasons_s = 1;
/* An agent ends its node at the job's time limit; a node that still sends so much later counts as lost. */
static const double limit_margin_s = 60;
/* Time for a node to end after it was cancelled. */
static const double stop_s = 15;
/* A worker without events for this long, while others are done, is reported. The limit is longer if workers
 * were without events for longer before, as with slow steps. */
static const double quiet_s = 5;
/* Time between such reports. */
static const double report_quiet_s = 60;

struct job_watch {
    struct progress_bar progress;
    struct checkpoint_copies copies;
    double failed_at;         /* clock_now of the first end without success; 0: none yet */
    double stopped_at;        /* clock_now when the other nodes were cancelled; 0: not yet */
    double began;             /* clock_now */
    double quiet_reported_at; /* clock_now of the last report of a worker without events */
};

static void report_change(struct job_node *n)
{
    const char *reason = n->view.reason;
    const char *message = n->view.message;

    if (!n->has_state_change)
        return;
    n->has_state_change = false;
    node_say(n, false, "%s%s%s%s%s%s", job_state_name(n->view.state), reason[0] ? ", " : "", reason,
             message[0] ? ": " : "", message, text_stop(message));
}

/* Called once the other nodes have reported their reasons, or had time to: fixes the cause of the failure
 * and cancels the others. */
static void stop_others(struct submission *s, struct job_watch *w)
{
    char reason[160];
    const struct job_node *n;
    struct err e;

    for (size_t i = 0; i < s->n_nodes; i++) {
        if (s->nodes[i].is_ended || s->nodes[i].silent_since == 0)
            continue;
        err_set(&e, ERR_UNREACHABLE, "%s when the job failed", s->nodes[i].silence.text);
        silence_lose(s, &s->nodes[i], &e);
    }
    s->cause = outcome_cause(s);
    n = &s->nodes[s->cause];
    snprintf(reason, sizeof reason, "node(%d): %.100s", n->at.node, n->view.reason);
    submission_cancel(s, reason, n->view.state == JOB_FAILED);
    for (size_t i = 0; i < s->n_nodes; i++)
        s->nodes[i].is_probed = false;
    w->stopped_at = clock_now();
}

static void check_limits(struct submission *s, struct job_watch *w)
{
    double now = clock_now();
    char limit[TEXT_AMOUNT];
    struct err e;

    if (w->failed_at == 0 && outcome_cause(s) >= 0)
        w->failed_at = now;
    if (w->failed_at > 0 && w->stopped_at == 0 &&
        (now - w->failed_at > own_reasons_s || submission_count_ended(s) == s->n_nodes))
        stop_others(s, w);
    for (size_t i = 0; i < s->n_nodes && now - w->began > s->settings.time_limit_s + limit_margin_s; i++) {
        if (s->nodes[i].is_ended)
            continue;
        err_set(&e, ERR_TIMEOUT, "%s has not ended the node, though the job's time limit of %s is over",
                s->nodes[i].label, text_seconds(limit, s->settings.time_limit_s));
        silence_lose(s, &s->nodes[i], &e);
    }
    for (size_t i = 0; i < s->n_nodes && w->stopped_at > 0 && now - w->stopped_at > stop_s; i++) {
        struct job_node *n = &s->nodes[i];

        if (n->is_ended)
            continue;
        err_set(&e, ERR_TIMEOUT, "%s did not end the node within %g s of its cancellation", n->label, stop_s);
        silence_lose(s, n, &e);
    }
}

/* *at: when the last worker succeeded, as seen here; *longest: the longest time any worker was without
 * events. Returns false if none has succeeded yet; a failed worker is not counted. */
static bool find_done(const struct submission *s, double *at, double *longest)
{
    bool is_found = false;

    *at = *longest = 0;
    for (size_t i = 0; i < s->n_nodes; i++) {
        const struct job_node *n = &s->nodes[i];

        if (node_is_server(n))
            continue;
        *longest = fmax(*longest, n->longest_gap);
        if (!n->is_ended || n->view.state != JOB_SUCCEEDED)
            continue;
        *at = fmax(*at, n->ended_at);
        is_found = true;
    }
    return is_found;
}

/* Reports workers without events while others are done. Workers that have lost a worker finish without it, so
 * only this check notices it. It may hang or still compute: the user decides. */
static void report_quiet_workers(const struct submission *s, struct job_watch *w)
{
    double now = clock_now(), done_at, longest;
    char limit[TEXT_AMOUNT];
    bool is_reported = false;

    if (w->failed_at > 0 || now - w->quiet_reported_at < report_quiet_s || !find_done(s, &done_at, &longest))
        return;
    for (size_t i = 0; i < s->n_nodes; i++) {
        const struct job_node *n = &s->nodes[i];
        double quiet = now - fmax(w->began, fmax(done_at, n->event_at));

        if (node_is_server(n) || n->is_ended || n->silent_since > 0 || quiet < fmax(quiet_s, longest))
            continue;
        console_info("node(%d): no event for %.0f s, and others are done; waiting for it until the job's "
                     "time limit of %s is over (Ctrl-C stops waiting).",
                     n->at.node, quiet, text_seconds(limit, s->settings.time_limit_s));
        is_reported = true;
    }
    if (is_reported)
        w->quiet_reported_at = now;
}

/* A cause fixed when the others were cancelled is kept: their ends are its consequences. */
static void conclude(struct submission *s)
{
    if (s->cause < 0)
        s->cause = outcome_cause(s);
    s->state = s->cause < 0 ? JOB_SUCCEEDED : s->nodes[s->cause].view.state;
}

static int open_streams(struct submission *s, struct err *e)
{
    for (size_t i = 0; i < s->n_nodes; i++) {
        struct job_node *n = &s->nodes[i];

        if (!n->is_ended && !n->stream.busy && node_open_stream(s->http, n, e) < 0)
            return e->code;
    }
    return 0;
}

static int watch_nodes(struct job_watch *w, struct submission *s, struct err *e)
{
    for (;;) {
        for (size_t i = 0; i < s->n_nodes; i++) {
            struct job_node *n = &s->nodes[i];

            silence_follow(s, n);
            report_change(n);
        }
        stragglers_find(s);
        if (w->failed_at == 0)
            retry_copy_checkpoints(&w->copies, s);
        else
            retry_stop_copying(&w->copies, s);
        report_quiet_workers(s, w);
        check_limits(s, w);
        if (submission_count_ended(s) == s->n_nodes)
            return 0;
        progress_bar_show(&w->progress, s);
        if (submission_check_time(s, e) < 0)
            return e->code;
        http_poll(s->http, w->failed_at > 0 ? 0.05 : 0.2);
    }
}

int stage_watch(struct submission *s, struct err *e)
{
    const double now = clock_now();
    struct job_watch w = {
        .progress = {.reported_at = now}, .began = now, .quiet_reported_at = now - report_quiet_s};
    int rc = open_streams(s, e) < 0 ? e->code : watch_nodes(&w, s, e);

    retry_stop_copying(&w.copies, s);
    if (rc < 0)
        return rc;
    for (size_t i = 0; i < s->n_nodes; i++)
        report_change(&s->nodes[i]);
    console_bars(NULL, 0);
    conclude(s);
    return 0;
}
