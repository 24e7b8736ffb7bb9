#include "submit/stages/silence.h"

#include <string.h>

#include "shared/base/clock.h"
#include "shared/job/reason.h"
#include "submit/terminal/console.h"
#include "submit/terminal/text.h"

static const double probe_after_s = 5, probe_timeout_s = 5, retry_s = 0.25, end_s = 5;

void silence_begin(struct submission *s, struct job_node *n, const struct err *why, bool is_reported)
{
    char until[TEXT_AMOUNT];

    http_clear(s->http, &n->stream);
    n->is_streaming = false;
    n->may_have_restarted = true;
    n->retry_at = clock_now() + (is_reported ? retry_s : 0);
    if (n->silent_since == 0)
        n->silent_since = clock_now();
    if (n->is_silence_reported)
        return;
    n->silence = *why;
    n->is_silence_reported = is_reported;
    if (is_reported)
        node_say(n, false, "%s; waiting until %s for it to come back.", why->text,
                 text_hour(until, clock_wall() + s->opt->agent_timeout_s));
}

/* A stream that ends in order, but without the job's end, is no broken connection: after a power failure the
 * end may have a number that was received before, or the agent is faulty. So the job's state is requested. */
static void ask_for_state(struct submission *s, struct job_node *n)
{
    bool is_first = n->cut_at == 0 || n->event_at > n->cut_at;
    char until[TEXT_AMOUNT];
    struct err ignored;

    http_clear(s->http, &n->stream);
    n->is_streaming = n->is_probed = false;
    n->retry_at = clock_now() + retry_s;
    n->is_asked = node_ask(s->http, n, "GET", NULL, 0, &ignored, "/v1/jobs/%s", s->id) == 0;
    if (!is_first)
        return;
    n->cut_at = clock_now();
    node_say(n, false,
             "%s ended the stream of events without the job's end; requesting the job's state until %s.",
             n->label, text_hour(until, clock_wall() + s->opt->agent_timeout_s));
}

/* Takes the answer to that request. ERR_UNREACHABLE: for --agent-timeout there was neither an end nor an
 * event. */
static int check_cut_stream(struct submission *s, struct job_node *n, struct err *e)
{
    struct err ignored;

    if (n->is_asked && !n->call.busy) {
        n->is_asked = false;
        if (node_answer(n, &ignored) == 0)
            node_take_view(n, &ignored);
    }
    if (n->is_ended || n->event_at > n->cut_at || clock_now() - n->cut_at <= s->opt->agent_timeout_s)
        return 0;
    return err_set(e, ERR_UNREACHABLE, "%s ends the stream of events again and again, without the job's end",
                   n->label);
}

/* Handles a stream that closed, or was refused, before the end event of the job. */
static int take_end_of_stream(struct submission *s, struct job_node *n, struct err *e)
{
    struct err why = n->stream.err;

    if (!why.code && n->stream.status == 200) {
        ask_for_state(s, n);
        return 0;
    }

    if (n->stream.status == 404 || n->stream.status == 410) {
        http_clear(s->http, &n->stream);
        n->is_streaming = false;
        return err_set(e, ERR_NOT_FOUND, "%s no longer has the job", n->label);
    }
    if (!why.code)
        err_set(&why, ERR_UNREACHABLE, "%s closed the stream of events (status %d)", n->label,
                n->stream.status);
    silence_begin(s, n, &why, n->silent_since > 0);
    return 0;
}

/* Takes the answer to a probe: a stream is also silent if the agent cannot write the job's end to its disk.
 * Nothing else of the answer is used, because the events may be newer. */
static void take_probe_answer(struct submission *s, struct job_node *n)
{
    bool is_first = n->unwritten_at == 0;
    char until[TEXT_AMOUNT];
    struct job_view v;
    struct err ignored;

    if (node_answer(n, &ignored) < 0 || reply_job(&v, n->call.reply, n->call.reply_len, &ignored) < 0)
        return;
    if (strcmp(v.reason, REASON_JOURNAL_FAILED) != 0) {
        n->unwritten_at = 0;
        return;
    }
    err_set(&n->unwritten, ERR_UNREACHABLE, "%s cannot write the job's end: %s", n->label, v.message);
    if (!is_first)
        return;
    n->unwritten_at = clock_now();
    node_say(n, false, "%s; waiting until %s.", n->unwritten.text,
             text_hour(until, clock_wall() + s->opt->agent_timeout_s));
}

/* A stream without new data may mean a frozen agent: probes it with a simple request. */
static void probe_agent(struct submission *s, struct job_node *n)
{
    double now = clock_now();
    struct err e;

    if (n->is_probed && n->call.busy && http_waited(s->http, &n->call) < probe_timeout_s)
        return;
    if (n->is_probed) {
        n->is_probed = false;
        e = n->call.err;
        if (!n->call.busy && !e.code)
            take_probe_answer(s, n);
        if (n->call.busy)
            err_set(&e, ERR_UNREACHABLE, "%s does not answer (for %.0f s)", n->label, probe_timeout_s);
        http_clear(s->http, &n->call);
        if (e.code)
            silence_begin(s, n, &e, true);
    } else if (now - n->stream.received_at > probe_after_s && now - n->contact_at > probe_after_s) {
        n->is_probed = node_ask(s->http, n, "GET", NULL, 0, &e, "/v1/jobs/%s", s->id) == 0;
    }
}

int silence_look(struct submission *s, struct job_node *n, struct err *e)
{
    struct err why;

    if (n->is_streaming && !n->stream.busy && take_end_of_stream(s, n, e) < 0)
        return e->code;
    if (n->stream.busy && n->stream.status >= 200 && n->stream.status < 300) {
        if (n->is_silence_reported)
            node_say(n, false, "%s answers again.", n->label);
        n->silent_since = 0;
        n->is_silence_reported = false;
        probe_agent(s, n);
    }
    if (n->cut_at > 0 && check_cut_stream(s, n, e) < 0)
        return e->code;
    if (n->is_ended)
        return 0;
    if (n->unwritten_at > 0 && clock_now() - n->unwritten_at > s->opt->agent_timeout_s) {
        *e = n->unwritten;
        return e->code;
    }
    if (n->silent_since == 0) {
        if (!n->is_streaming && clock_now() >= n->retry_at && node_open_stream(s->http, n, &why) < 0)
            silence_begin(s, n, &why, true);
        return 0;
    }
    if (clock_now() - n->silent_since > s->opt->agent_timeout_s)
        return err_set(e, ERR_UNREACHABLE, "%s and did not come back within %g s", n->silence.text,
                       s->opt->agent_timeout_s);
    if (!n->is_streaming && clock_now() >= n->retry_at && node_open_stream(s->http, n, &why) < 0)
        silence_begin(s, n, &why, true);
    return 0;
}

void silence_lose(struct submission *s, struct job_node *n, const struct err *why)
{
    http_clear(s->http, &n->stream);
    n->is_lost = n->unwritten_at == 0;
    if (n->is_lost)
        node_end(n, JOB_FAILED, REASON_NODE_LOST, why->text);
    else
        node_end(n, JOB_FAILED, REASON_JOURNAL_FAILED, n->unwritten.text);
}

void silence_follow(struct submission *s, struct job_node *n)
{
    struct err why;

    if (n->is_ended || silence_look(s, n, &why) == 0)
        return;
    silence_lose(s, n, &why);
}

int silence_await_end(struct submission *s, const struct err *why)
{
    const double until = clock_now() + end_s;
    struct err ignored;

    if (why->code == ERR_CANCELLED || why->code == ERR_TIMEOUT)
        return why->code;
    while (submission_count_ended(s) == 0 && clock_now() < until && submission_check_time(s, &ignored) == 0) {
        http_poll(s->http, retry_s);
        for (size_t i = 0; i < s->n_nodes; i++)
            silence_follow(s, &s->nodes[i]);
    }
    return submission_count_ended(s) > 0 ? 0 : why->code;
}
