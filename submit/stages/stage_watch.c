/* watch: until every node has ended. The streams of events say what happens; an agent that falls silent gets
 * a while to come back, a node that fails decides the job, and the others are told to stop. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/clock.h"
#include "submit/stages/console.h"
#include "submit/stages/outcome.h"
#include "submit/stages/progress.h"
#include "submit/stages/silence.h"
#include "submit/stages/submission.h"
#include "submit/text.h"

/* After the first failure: time for the others to say why they failed. */
static const double own_reasons_s = 1;
/* After the order to stop. */
static const double stop_s = 15;
/* Without a word from a worker, while others are done, before it is said that this one waits for it; longer
 * where workers were silent for longer before, as in steps that take their time. */
static const double quiet_s = 5;
/* Before it is said again. */
static const double report_quiet_s = 60;

struct watch {
    struct progress progress;
    double failed_at;  /* clock_now of the first end that is no success; 0: none yet */
    double stopped_at; /* when the others were told to stop; 0: not yet */
    double began;      /* clock_now */
    double quiet_said; /* clock_now: that a worker says nothing */
};

/* `text`: what became of its agent. */
static void lose(struct submission *s, struct node *n, const char *text)
{
    http_clear(s->http, &n->stream);
    n->is_lost = true;
    node_end(n, JOB_FAILED, "NodeLost", text);
}

static void tell(struct node *n)
{
    const char *reason = n->view.reason;
    const char *message = n->view.message;

    if (!n->is_announced)
        return;
    n->is_announced = false;
    console_info("node(%d): %s%s%s%s%s%s", n->at.node, job_state_name(n->view.state), reason[0] ? ", " : "",
                 reason, message[0] ? ": " : "", message, text_stop(message));
}

/* The others' own reasons are in, or had their time: the first failure is the job's. */
static void stop_others(struct submission *s, struct watch *w)
{
    char reason[160];
    const struct node *n;
    struct err e;

    for (size_t i = 0; i < s->n_nodes; i++) {
        if (s->nodes[i].is_ended || s->nodes[i].silent_since == 0)
            continue;
        err_set(&e, ERR_UNREACHABLE, "%s when the job failed", s->nodes[i].silence.text);
        lose(s, &s->nodes[i], e.text);
    }
    s->cause = outcome_cause(s);
    n = &s->nodes[s->cause];
    snprintf(reason, sizeof reason, "node(%d): %.100s", n->at.node, n->view.reason);
    submission_cancel(s, reason);
    for (size_t i = 0; i < s->n_nodes; i++)
        s->nodes[i].is_probed = false;
    w->stopped_at = clock_now();
}

static void judge(struct submission *s, struct watch *w)
{
    double now = clock_now();
    struct err e;

    if (w->failed_at == 0 && outcome_cause(s) >= 0)
        w->failed_at = now;
    if (w->failed_at > 0 && w->stopped_at == 0 &&
        (now - w->failed_at > own_reasons_s || submission_count_ended(s) == s->n_nodes))
        stop_others(s, w);
    for (size_t i = 0; i < s->n_nodes && w->stopped_at > 0 && now - w->stopped_at > stop_s; i++) {
        struct node *n = &s->nodes[i];

        if (n->is_ended)
            continue;
        err_set(&e, ERR_TIMEOUT, "%s did not end the node within %g s of being told to", n->label, stop_s);
        lose(s, n, e.text);
    }
}

/* When the last worker was done, as far as this has seen it, and how long any was silent before. False: none
 * is done yet; one that failed is no measure of the others. */
static bool find_done(const struct submission *s, double *at, double *longest)
{
    bool is_found = false;

    *at = *longest = 0;
    for (size_t i = 0; i < s->n_nodes; i++) {
        const struct node *n = &s->nodes[i];

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

/* A worker that others have lost, and finish without, is missed by nobody but this. It may hang, or compute:
 * who watches decides. */
static void tell_who_is_quiet(const struct submission *s, struct watch *w)
{
    double now = clock_now(), done_at, longest;
    char limit[TEXT_AMOUNT];
    bool is_said = false;

    if (w->failed_at > 0 || now - w->quiet_said < report_quiet_s || !find_done(s, &done_at, &longest))
        return;
    for (size_t i = 0; i < s->n_nodes; i++) {
        const struct node *n = &s->nodes[i];
        double quiet = now - fmax(w->began, fmax(done_at, n->event_at));

        if (node_is_server(n) || n->is_ended || n->silent_since > 0 || quiet < fmax(quiet_s, longest))
            continue;
        console_info(
            "node(%d): has said nothing for %.0f s, and others are done; waiting for it until the job's "
            "time limit of %s is over (Ctrl-C gives up).",
            n->at.node, quiet, text_seconds(limit, s->settings.time_limit_s));
        is_said = true;
    }
    if (is_said)
        w->quiet_said = now;
}

/* What was decided when the others were told to stop stays: their ends are its consequences. */
static void conclude(struct submission *s)
{
    if (s->cause < 0)
        s->cause = outcome_cause(s);
    s->state = s->cause < 0 ? JOB_SUCCEEDED : s->nodes[s->cause].view.state;
}

int stage_watch(struct submission *s, struct err *e)
{
    const double now = clock_now();
    struct watch w = {.progress = {.said_at = now}, .began = now, .quiet_said = now - report_quiet_s};

    for (size_t i = 0; i < s->n_nodes; i++) {
        struct node *n = &s->nodes[i];

        if (!n->is_ended && !n->stream.busy && node_open_stream(s->http, n, e) < 0)
            return e->code;
    }
    for (;;) {
        for (size_t i = 0; i < s->n_nodes; i++) {
            struct node *n = &s->nodes[i];
            struct err lost;

            if (!n->is_ended && silence_look(s, n, &lost) < 0)
                lose(s, n, lost.text);
            tell(n);
        }
        tell_who_is_quiet(s, &w);
        judge(s, &w);
        if (submission_count_ended(s) == s->n_nodes)
            break;
        progress_show(&w.progress, s);
        if (submission_check_time(s, e) < 0)
            return e->code;
        http_poll(s->http, w.failed_at > 0 ? 0.05 : 0.2);
    }
    for (size_t i = 0; i < s->n_nodes; i++)
        tell(&s->nodes[i]);
    console_bars(NULL, 0);
    conclude(s);
    return 0;
}
