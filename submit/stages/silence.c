#include "submit/stages/silence.h"

#include "shared/clock.h"
#include "submit/stages/console.h"
#include "submit/text.h"

static const double probe_after_s = 5, probe_timeout_s = 5, retry_s = 0.25;

void silence_begin(struct submission *s, struct node *n, const struct err *why, bool is_reported)
{
    char until[TEXT_AMOUNT];

    http_clear(s->http, &n->stream);
    n->is_streaming = false;
    n->retry_at = clock_now() + (is_reported ? retry_s : 0);
    if (n->silent_since == 0)
        n->silent_since = clock_now();
    if (n->is_silence_reported)
        return;
    n->silence = *why;
    n->is_silence_reported = is_reported;
    if (is_reported)
        console_info("node(%d): %s; waiting until %s for it to come back.", n->at.node, why->text,
                     text_hour(until, clock_wall() + s->opt->agent_timeout_s));
}

/* Handles a stream that closed, or was refused, before the end event of the job. */
static int take_end_of_stream(struct submission *s, struct node *n, struct err *e)
{
    struct err why = n->stream.err;

    if (n->stream.status == 404 || n->stream.status == 410) {
        http_clear(s->http, &n->stream);
        n->is_streaming = false;
        return err_set(e, ERR_NOT_FOUND, "%s no longer knows the job", n->label);
    }
    if (!why.code)
        err_set(&why, ERR_UNREACHABLE, "%s closed the stream of events (status %d)", n->label,
                n->stream.status);
    silence_begin(s, n, &why, n->silent_since > 0);
    return 0;
}

/* A stream without new data may mean a frozen agent: probes it with a simple request. */
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
            silence_begin(s, n, &e, true);
    } else if (now - n->stream.received_at > probe_after_s && now - n->contact_at > probe_after_s) {
        n->is_probed = node_ask(s->http, n, "GET", NULL, 0, &e, "/v1/jobs/%s", s->id) == 0;
    }
}

int silence_look(struct submission *s, struct node *n, struct err *e)
{
    struct err why;

    if (n->is_streaming && !n->stream.busy && take_end_of_stream(s, n, e) < 0)
        return e->code;
    if (n->stream.busy && n->stream.status >= 200 && n->stream.status < 300) {
        if (n->is_silence_reported)
            console_info("node(%d): %s answers again.", n->at.node, n->label);
        n->silent_since = 0;
        n->is_silence_reported = false;
        probe(s, n);
    }
    if (n->silent_since == 0)
        return 0;
    if (clock_now() - n->silent_since > s->opt->agent_timeout_s)
        return err_set(e, ERR_UNREACHABLE, "%s and did not come back within %g s", n->silence.text,
                       s->opt->agent_timeout_s);
    if (!n->is_streaming && clock_now() >= n->retry_at && node_open_stream(s->http, n, &why) < 0)
        silence_begin(s, n, &why, true);
    return 0;
}
