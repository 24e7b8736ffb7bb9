#include <math.h>
#include <signal.h>
#include <stdio.h>

#include "runner/monitor/monitor_state.h"
#include "shared/base/clock.h"
#include "shared/base/process.h"
#include "shared/job/reason.h"

/* The agent ends the job at the limit itself. This margin is for a node whose agent has ended or hangs. */
static const double LIMIT_MARGIN_S = 1;
static const double LIMIT_GRACE_S = 2;  /* as the agent's: from SIGTERM to SIGKILL */
static const double ORPHAN_GRACE_S = 5; /* the job process ends by itself when it has loaded the packages */
static const double PERIOD_MAX_S = 1, BEFORE_START_MAX_S = 60;

static bool is_stopped(pid_t pid)
{
    struct process p;

    return process_look(&p, pid) && p.is_stopped;
}

static double call_period(const struct monitor_state *m)
{
    return fmin(m->call_limit_s / 4, PERIOD_MAX_S);
}

/* Adds the time since the last check to that of the present call. The monitor checks once a period. After a
 * longer break the monitor itself was stopped, and only two periods are added. */
static void follow_call(struct monitor_state *m, double now)
{
    struct monitor_call *c = &m->call;
    bool is_inside = stopwatch_in_codec(m->watch);
    double since = stopwatch_since(m->watch);

    if (!is_inside || since != c->since)
        *c = (struct monitor_call){.since = since, .seen_at = is_inside ? fmin(since, now) : now};
    if (is_inside && !is_stopped(m->job))
        c->took_s += fmin(now - c->seen_at, 2 * call_period(m));
    c->seen_at = now;
}

void monitor_report(struct monitor_state *m, const char *reason, const char *message)
{
    fprintf(stderr, "%s: %s\n", reason, message);
    report_end(&m->report, "failed", reason, message);
}

/* Before the start job_submit waits two minutes for a node. */
static double call_limit(const struct monitor_state *m)
{
    return m->n_orders < 2 ? fmin(m->call_limit_s, BEFORE_START_MAX_S) : m->call_limit_s;
}

static bool has_hung(struct monitor_state *m, double now)
{
    char text[224], what[96];

    if (m->call_limit_s == 0)
        return false;
    follow_call(m, now);
    if (m->call.took_s <= call_limit(m))
        return false;
    stopwatch_name_call(what, sizeof what, m->watch, m->is_executor);
    snprintf(text, sizeof text, "%s %s has not %s for %.3g s: does it loop?",
             m->is_executor ? "executor" : "codec", m->codec, what, call_limit(m));
    monitor_report(m, REASON_CODEC_FAILED, text);
    return true;
}

/* The first end line counts: what the job process reports after SIGTERM does not. */
static void check_limit(struct monitor_state *m, double now)
{
    if (m->limit_at == 0 || now < m->limit_at + LIMIT_MARGIN_S || m->kill_at > 0)
        return;
    monitor_report(m, REASON_TIME_LIMIT, "the job's time limit is over");
    kill(m->job, SIGTERM);
    m->kill_at = now + LIMIT_GRACE_S;
}

bool monitor_check_time(struct monitor_state *m, double now)
{
    check_limit(m, now);
    if (m->orphaned_at > 0 && now > m->orphaned_at + ORPHAN_GRACE_S)
        return true;
    if (m->kill_at > 0)
        return now > m->kill_at;
    return has_hung(m, now);
}

static double until(double at, double now, double next)
{
    return at > 0 ? fmin(next, fmax(at - now, 0)) : next;
}

double monitor_period(const struct monitor_state *m, double now)
{
    double next = m->call_limit_s > 0 ? call_period(m) : 3600;

    if (m->limit_at > 0 && m->kill_at == 0)
        next = until(m->limit_at + LIMIT_MARGIN_S, now, next);
    if (m->orphaned_at > 0)
        next = until(m->orphaned_at + ORPHAN_GRACE_S, now, next);
    return until(m->kill_at, now, next);
}
