/* Asks agents for what GET /v1/agent reports, all at once. */
#include <math.h>
#include <string.h>

#include "shared/base/clock.h"
#include "submit/doctor/probed_host.h"
#include "submit/terminal/interrupt.h"

static void read_answer(struct probed_host *p, double sent_at, double sent_wall)
{
    struct err e;

    p->connect_s = p->node.call.received_at - sent_at;
    if (node_answer(&p->node, &e) < 0 ||
        probed_host_read(p, p->node.call.reply ? p->node.call.reply : "", p->node.call.reply_len, &e) < 0) {
        if (e.code == ERR_UNREACHABLE && !e.hint[0])
            err_hint(&e, "Start the agent there, or correct its address in worker.json.");
        probed_host_fail(p, "reached", &e);
        return;
    }
    p->clock_ahead_s -= sent_wall + p->connect_s; /* the answer was written just before it was received */
}

/* Polls until no call is under way, or the deadline. */
static int finish_calls(struct http *h, const struct probed_host *all, size_t n, double deadline,
                        struct err *e)
{
    bool busy = true;

    while (busy && clock_now() < deadline) {
        http_poll(h, 0.1);
        if (interrupt_check(e) < 0)
            return e->code;
        busy = false;
        for (size_t i = 0; i < n; i++)
            busy |= all[i].node.call.busy;
    }
    return 0;
}

static int ask_all(struct http *h, struct probed_host *all, size_t n, struct err *e)
{
    double sent_at, sent_wall;
    struct err why;

    if (n > 0 && node_prove_all(&all[0].node, n, sizeof *all, e) < 0)
        return e->code;
    sent_at = clock_now();
    sent_wall = clock_wall();
    for (size_t i = 0; i < n; i++)
        if (!all[i].code && !node_must_prove(&all[i].node) &&
            node_ask(h, &all[i].node, "GET", NULL, 0, &why, "/v1/agent") < 0)
            probed_host_fail(&all[i], "reached", &why);
    if (finish_calls(h, all, n, sent_at + DOCTOR_S, e) < 0)
        return e->code;
    for (size_t i = 0; i < n; i++) {
        struct probed_host *p = &all[i];

        if (p->node.call.busy) {
            err_set(&why, ERR_UNREACHABLE, "node(%d): %s has not answered for %g s", p->node.at.node,
                    p->node.label, DOCTOR_S);
            err_hint(&why, "Is the machine on, and its port open to this one?");
            probed_host_fail(p, "reached", &why);
            http_clear(h, &p->node.call);
        } else if (!p->code)
            read_answer(p, sent_at, sent_wall);
    }
    return 0;
}

/* A second request on the connections that are open now. */
static int measure_round_trips(struct http *h, struct probed_host *all, size_t n, struct err *e)
{
    double sent_at = clock_now();
    struct err ignored;

    for (size_t i = 0; i < n; i++)
        if (all[i].has_answered)
            node_ask(h, &all[i].node, "GET", NULL, 0, &ignored, "/healthz");
    if (finish_calls(h, all, n, sent_at + DOCTOR_S, e) < 0)
        return e->code;
    for (size_t i = 0; i < n; i++)
        all[i].round_trip_s = all[i].has_answered && !all[i].node.call.busy && all[i].node.call.status == 200
                                  ? all[i].node.call.received_at - sent_at
                                  : NAN;
    return 0;
}

int probed_hosts_ask(struct probed_host *all, size_t n, struct err *e)
{
    struct http *h = http_new(e);
    int rc;

    if (!h)
        return e->code;
    rc = ask_all(h, all, n, e) < 0 ? e->code : measure_round_trips(h, all, n, e);
    for (size_t i = 0; i < n; i++)
        node_forget(h, &all[i].node);
    http_free(h);
    return rc;
}
