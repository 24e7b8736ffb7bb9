#include "agent/jobs/job_end.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "agent/base/log.h"
#include "agent/jobs/artifact.h"
#include "shared/base/clock.h"
#include "shared/job/reason.h"

/* Jobs stopped for one of these reasons are cancelled; for any other reason they have failed. */
static const char *const reasons_to_cancel[] = {
    REASON_USER_CANCELLED, REASON_JOB_FAILED, REASON_LEASE_EXPIRED, REASON_AGENT_STOPPED, REASON_SUPERSEDED};

enum job_state job_end_for(const char *reason)
{
    for (size_t i = 0; i < sizeof reasons_to_cancel / sizeof reasons_to_cancel[0]; i++)
        if (strcmp(reasons_to_cancel[i], reason) == 0)
            return JOB_CANCELLED;
    return JOB_FAILED;
}

const char *job_reason_of(const struct err *e)
{
    return e->code == ERR_NOSPACE ? REASON_DISK_FULL : REASON_INTERNAL;
}

static void warn(const struct task *t, const char *area, const struct err *e)
{
    log_line(LOG_LEVEL_WARN, "agent", t->job.spec.id, "%s: %s", area, e->text);
}

static void clean_run_folder(const struct task *t, const char *reason)
{
    size_t n = artifact_clean_run(t->dir, reason);

    if (n > 0)
        log_line(LOG_LEVEL_INFO, "agent", t->job.spec.id,
                 "%zu files of the node other than its results were removed to free the disk", n);
}

/* A timer's callback. The slot stays in use until the end is written: while the disk has no room for that
 * line, it has none for the reservation of another job. */
static void write_end(void *arg)
{
    struct task *t = arg;
    struct outcome *o = &t->unwritten;
    bool is_first = !o->is_waiting;
    struct event ev;

    event_state(&ev, EVENT_END, o->state, o->reason, o->message);
    o->is_waiting = task_record(t, &ev, &o->why) < 0;
    if (o->is_waiting) {
        if (is_first)
            log_line(LOG_LEVEL_ERROR, "agent", t->job.spec.id,
                     "%s, but its journal cannot be written: %s; this is tried again every second",
                     job_state_name(o->state), o->why.text);
        t->tick = (struct timer){.due = write_end, .arg = t};
        timer_set(t->jobs->loop, &t->tick, clock_now() + JOB_TICK_S);
        return;
    }
    journal_rest(&t->journal);
    if (t->slot_since > 0) {
        char user[TURN_USER];

        turns_user(user, t->job.owner, t->job.spec.submitter);
        turns_charge(&t->jobs->turns, user, clock_now() - t->slot_since, clock_now());
        turns_freed(&t->jobs->turns, clock_now());
    }
    t->jobs->slot_freed(t->jobs);
}

void job_finish(struct task *t, enum job_state s, const char *reason, const char *message)
{
    struct outcome *o = &t->unwritten;

    if (o->is_waiting) /* it has ended already */
        return;
    o->state = s;
    snprintf(o->reason, sizeof o->reason, "%s", reason);
    snprintf(o->message, sizeof o->message, "%s", message);
    task_release(t); /* frees the runner's end event, which may have the reason */
    clean_run_folder(t, o->reason);
    write_end(t);
}

int job_move(struct task *t, enum job_state s, const char *reason, const char *message, struct err *e)
{
    struct event ev;

    event_state(&ev, EVENT_STATE, s, reason, message);
    return task_record(t, &ev, e);
}

/* A transition that is not allowed, or a failed write, ends the job. */
void job_enter(struct task *t, enum job_state s, const char *reason, const char *message)
{
    struct err e;

    if (job_move(t, s, reason, message, &e) < 0)
        job_stop(t, job_reason_of(&e), e.text, 0);
}

void job_enter_ready(struct task *t, const char *data_key)
{
    struct event ev;
    struct err e;

    event_state(&ev, EVENT_STATE, JOB_READY, REASON_WAITING_FOR_NODES, "ready, waits for the other nodes");
    snprintf(ev.data_key, sizeof ev.data_key, "%s", data_key);
    if (task_record(t, &ev, &e) < 0)
        job_stop(t, job_reason_of(&e), e.text, 0);
}

void job_kill_by(struct task *t, double kill_at)
{
    if (t->kill_at == 0 || kill_at < t->kill_at)
        t->kill_at = kill_at;
}

/* The reason is kept here, too, as the journal may not take the state `stopping`. */
void job_remember_stop(struct task *t, const char *reason, const char *message)
{
    if (t->stop_reason[0])
        return;
    snprintf(t->stop_reason, sizeof t->stop_reason, "%s", reason);
    snprintf(t->stop_message, sizeof t->stop_message, "%s", message);
}

void job_stop(struct task *t, const char *reason, const char *message, double grace_s)
{
    double kill_at = clock_now() + grace_s;
    struct err e;

    if (job_state_is_terminal(t->job.state) || t->unwritten.is_waiting)
        return;
    if (!t->runner.pid) {
        job_finish(t, job_end_for(reason), reason, message);
        return;
    }
    job_remember_stop(t, reason, message);
    if (t->job.state != JOB_STOPPING && job_move(t, JOB_STOPPING, reason, message, &e) < 0)
        warn(t, "stop", &e);
    runner_signal(&t->runner, SIGTERM);
    runner_signal(&t->runner, SIGCONT); /* a process that is stopped handles SIGTERM only when it continues */
    job_kill_by(t, kill_at);
    timer_set(t->jobs->loop, &t->tick, grace_s < JOB_TICK_S ? kill_at + 1e-3 : clock_now() + JOB_TICK_S);
}
