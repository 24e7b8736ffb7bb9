/* watch: until every node has ended. The streams of events say what happens; an agent that falls silent gets
 * a while to come back, a node that fails decides the job, and the others are told to stop. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/clock.h"
#include "submit/outcome.h"
#include "submit/progress.h"
#include "submit/say.h"
#include "submit/submission.h"
#include "submit/text.h"

/* Silence, and what is done about it. */
static const double probe_after_s = 5, probe_timeout_s = 5, retry_s = 0.25;
/* After the first failure: time for the others to say why they failed. */
static const double own_reasons_s = 1;
/* After the order to stop. */
static const double stop_s = 15;

struct watch {
    struct progress progress;
    double failed_at;  /* clock_now of the first end that is no success; 0: none yet */
    double stopped_at; /* when the others were told to stop; 0: not yet */
};

/* Its agent does not answer: from now on it is called again and again, for a while. A stream that merely
 * broke is first opened again without a word; the sentence for people is that of the call which fails
 then. */
static void fall_silent(struct submission *s, struct node *n, const struct err *why, bool is_told)
{
    char until[TEXT_AMOUNT];

    http_clear(s->http, &n->stream);
    n->is_streaming = false;
    n->retry_at = clock_now() + (is_told ? retry_s : 0);
    if (n->silent_since == 0)
        n->silent_since = clock_now();
    if (n->is_silence_told)
        return;
    n->silence = *why;
    n->is_silence_told = is_told;
    if (is_told)
        say_info("node(%d): %s; waiting until %s for it to come back.", n->at.node, why->text,
                 text_hour(until, clock_wall() + s->opt->agent_timeout_s));
}

static void lose(struct submission *s, struct node *n, const char *how)
{
    char text[sizeof n->silence.text + 64];

    http_clear(s->http, &n->stream);
    n->is_lost = true;
    snprintf(text, sizeof text, "%s %s", n->silence.text, how);
    node_end(n, JOB_FAILED, "NodeLost", text);
}

/* The stream closed, or was refused, before the job's end was heard. */
static void take_end_of_stream(struct submission *s, struct node *n)
{
    struct err e = n->stream.err;

    if (n->stream.status == 404 || n->stream.status == 410) {
        err_set(&n->silence, ERR_NOT_FOUND, "%s does not know the job any more", n->label);
        lose(s, n, "(its records are gone)");
        return;
    }
    if (!e.code)
        err_set(&e, ERR_UNREACHABLE, "%s closed the stream of events (status %d)", n->label,
                n->stream.status);
    fall_silent(s, n, &e, n->silent_since > 0);
}

/* A stream without news may be a frozen agent: it is asked something simple. */
static void probe(struct submission *s, struct node *n)
{
    double now = clock_now();
    struct err e;

    if (n->is_probed && n->call.busy && now - n->contact_at < probe_timeout_s)
        return;
    if (n->is_probed) {
        n->is_probed = false;
        e = n->call.err;
        if (n->call.busy)
            err_set(&e, ERR_UNREACHABLE, "%s does not answer (for %.0f s)", n->label, now - n->contact_at);
        http_clear(s->http, &n->call);
        if (e.code)
            fall_silent(s, n, &e, true);
    } else if (now - n->stream.heard_at > probe_after_s && now - n->contact_at > probe_after_s) {
        n->is_probed = node_ask(s->http, n, "GET", NULL, 0, &e, "/v1/jobs/%s", s->id) == 0;
    }
}

static void look_at(struct submission *s, struct node *n)
{
    char how[48];
    struct err e;

    if (n->is_ended)
        return;
    if (n->is_streaming && !n->stream.busy)
        take_end_of_stream(s, n);
    if (n->stream.busy && n->stream.status >= 200 && n->stream.status < 300) {
        if (n->is_silence_told)
            say_info("node(%d): %s answers again.", n->at.node, n->label);
        n->silent_since = 0;
        n->is_silence_told = false;
        probe(s, n);
    }
    if (n->is_ended || n->silent_since == 0)
        return;
    snprintf(how, sizeof how, "and did not come back within %g s", s->opt->agent_timeout_s);
    if (clock_now() - n->silent_since > s->opt->agent_timeout_s)
        lose(s, n, how);
    else if (!n->is_streaming && clock_now() >= n->retry_at && node_open_stream(s->http, n, &e) < 0)
        fall_silent(s, n, &e, true);
}

static void tell(struct node *n)
{
    const char *reason = n->view.reason;
    const char *message = n->view.message;

    if (!n->is_announced)
        return;
    n->is_announced = false;
    say_info("node(%d): %s%s%s%s%s.", n->at.node, job_state_name(n->view.state), reason[0] ? ", " : "",
             reason, message[0] ? ": " : "", message);
}

/* The others' own reasons are in, or had their time: the first failure is the job's. */
static void stop_others(struct submission *s, struct watch *w)
{
    char reason[160];
    const struct node *n;

    for (size_t i = 0; i < s->n_nodes; i++)
        if (s->nodes[i].silent_since > 0 && !s->nodes[i].is_ended)
            lose(s, &s->nodes[i], "when the job failed");
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

    if (w->failed_at == 0 && outcome_cause(s) >= 0)
        w->failed_at = now;
    if (w->failed_at > 0 && w->stopped_at == 0 &&
        (now - w->failed_at > own_reasons_s || submission_count_ended(s) == s->n_nodes))
        stop_others(s, w);
    for (size_t i = 0; i < s->n_nodes && w->stopped_at > 0 && now - w->stopped_at > stop_s; i++) {
        struct node *n = &s->nodes[i];

        if (n->is_ended)
            continue;
        err_set(&n->silence, ERR_TIMEOUT, "%s did not end the node", n->label);
        lose(s, n, "within 15 s of being told to");
    }
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
    struct watch w = {.progress = {.said_at = clock_now()}};

    for (size_t i = 0; i < s->n_nodes; i++) {
        struct node *n = &s->nodes[i];

        if (!n->is_ended && !n->stream.busy && node_open_stream(s->http, n, e) < 0)
            return e->code;
    }
    for (;;) {
        for (size_t i = 0; i < s->n_nodes; i++) {
            look_at(s, &s->nodes[i]);
            tell(&s->nodes[i]);
        }
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
    say_bars(NULL, 0);
    conclude(s);
    return 0;
}
