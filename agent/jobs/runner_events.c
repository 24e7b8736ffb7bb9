#include "agent/jobs/runner_events.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/base/log.h"
#include "agent/jobs/artifact.h"
#include "agent/jobs/job_end.h"
#include "agent/jobs/success.h"
#include "shared/base/clock.h"
#include "shared/base/json.h"
#include "shared/base/process.h"
#include "shared/job/reason.h"
#include "shared/records/artifacts.h"

enum { LOG_TAIL_BYTES = 16384, WARNED_LINES = 5, LAST_TURNS_MAX = JOURNAL_MAX_BYTES / TAIL_TURN_BYTES };

static void bad_line(struct task *t, const char *why)
{
    if (t->n_bad_lines++ < WARNED_LINES)
        log_line(LOG_LEVEL_WARN, "agent", t->job.spec.id, "runner: a line was dropped: %s", why);
}

/* Records how many lines before this one were not copied, so that a restarted agent continues after it. Held
 * lines are recorded later. */
static int note_skipped(struct task *t, struct err *e)
{
    uint64_t n_later = 1 + line_limit_n_held(&t->lines), n_before = t->job.n_copied + n_later;
    struct event note;

    if (t->lines.n_seen <= n_before)
        return 0;
    event_init(&note, NOTE_SKIPPED);
    note.n_lines = t->lines.n_seen - n_before;
    return task_record(t, &note, e);
}

static bool is_full(const struct task *t)
{
    return t->journal.end > JOURNAL_MAX_BYTES;
}

static double free_share(const struct task *t)
{
    return is_full(t) ? 0 : 1 - (double)t->journal.end / JOURNAL_MAX_BYTES;
}

/* Whether the event is a fact that a runner states once, and has stated. */
static bool is_known(const struct task *t, const struct event *ev)
{
    return (ev->kind == EVENT_ENGINE && t->job.engine[0]) ||
           (ev->kind == EVENT_STOPPED && t->job.stopped.reason != STOP_NONE) ||
           (ev->kind == EVENT_RESULT && t->job.params_sha256[0]) ||
           (ev->kind == EVENT_ISOLATION && t->job.is_isolation_known);
}

static void record_line(struct task *t, const char *text, size_t len)
{
    struct event ev;
    struct err e;

    if (is_full(t) && !runner_line_is_fact(text, len)) {
        bad_line(t, "the journal is full");
    } else if (event_parse_line(&ev, text, len, true, &e) < 0) {
        if (e.code == ERR_NOMEM)
            t->is_cut = true;
        else
            bad_line(t, e.text);
    } else if (!is_known(t, &ev) && (note_skipped(t, &e) < 0 || task_record(t, &ev, &e) < 0)) {
        t->is_cut = true;
        log_line(LOG_LEVEL_WARN, "agent", t->job.spec.id, "journal: %s; the runner's lines wait", e.text);
    }
}

/* Records the lines that were held back in a flood. `is_last`: the runner has ended. */
static void record_held(struct task *t, bool is_last)
{
    struct held_line line;

    while (!t->is_cut && line_limit_take_held(&t->lines, &line, free_share(t), clock_now(), is_last))
        record_line(t, line.text, line.len);
}

static void on_mass_line(struct task *t, const char *text, size_t len)
{
    uint64_t n_dropped = t->lines.n_dropped;

    if (t->is_cut) /* runner_events_again reads this line again */
        return;
    if (t->n_skip > 0) {
        t->n_skip--;
        t->lines.n_seen++;
        return;
    }
    record_held(t, false);
    if (line_limit_offer(&t->lines, text, len, free_share(t), clock_now()))
        record_line(t, text, len);
    if (n_dropped == 0 && t->lines.n_dropped > 0)
        log_line(LOG_LEVEL_WARN, "agent", t->job.spec.id,
                 "runner: it writes more than %d lines a second: a sample of them is taken", LINE_RATE);
}

/* The first end counts. */
static void on_end_line(struct task *t, const char *text, size_t len)
{
    struct event *ev = t->end ? NULL : malloc(sizeof *ev);
    struct err e;

    if (!ev) {
        t->is_cut = t->is_cut || !t->end;
        return;
    }
    if (event_parse_line(ev, text, len, true, &e) < 0) {
        if (e.code == ERR_NOMEM)
            t->is_cut = true;
        else
            bad_line(t, e.text);
        free(ev);
        return;
    }
    t->end = ev;
    job_kill_by(t, clock_now() + END_GRACE_S);
}

/* A `ready` of a runner that has ended is ignored. */
static void on_ready_line(struct task *t, const char *text, size_t len)
{
    struct event ev;
    struct err e;

    if (t->job.state != JOB_PREPARING || !t->runner.pid || t->n_last_turns > 0)
        return;
    if (event_parse_line(&ev, text, len, true, &e) == 0)
        job_enter_ready(t, ev.data_key);
    else if (e.code == ERR_NOMEM)
        t->is_cut = true;
    else
        bad_line(t, e.text);
}

/* Not copied to the journal: the line only answers requests that wait now. */
static void on_model_line(struct task *t, const char *text, size_t len)
{
    struct model_line {
        char event[16], error[MESSAGE_MAX];
        double step;
    } line = {.step = 0};
    static const struct json_field fields[] = {
        {.key = "event", .kind = JSON_FIELD_TEXT, JSON_AT(struct model_line, event), .required = true},
        {.key = "step", .kind = JSON_FIELD_DOUBLE, JSON_AT(struct model_line, step), .max = 1e15},
        {.key = "error", .kind = JSON_FIELD_TEXT, JSON_AT(struct model_line, error)},
        {0},
    };
    json_t *doc;
    struct err e;

    if (json_parse(&doc, text, len, "model", &e) < 0) {
        bad_line(t, e.text);
        return;
    }
    if (json_to_struct(&line, doc, fields, "", &e) < 0) {
        bad_line(t, e.text);
    } else {
        memcpy(t->model_error, line.error, sizeof t->model_error);
        t->n_models++;
        t->jobs->n_changes++;
    }
    json_decref(doc);
}

static void on_runner_line(void *arg, const char *text, size_t len)
{
    struct task *t = arg;

    if (runner_line_is("end", text, len))
        on_end_line(t, text, len);
    else if (runner_line_is("ready", text, len))
        on_ready_line(t, text, len);
    else if (runner_line_is("model", text, len))
        on_model_line(t, text, len);
    else
        on_mass_line(t, text, len);
}

/* Returns whether there may be more. */
static bool read_lines(struct task *t)
{
    size_t n_dropped = t->tail.n_dropped;
    bool more = t->tail.is_open && tail_read(&t->tail, on_runner_line, t);

    if (t->tail.n_dropped > n_dropped)
        bad_line(t, "longer than 4 KiB");
    return more;
}

void runner_events_read(struct task *t)
{
    bool more = read_lines(t);

    if (!t->end) /* otherwise held lines are recorded with the end */
        record_held(t, false);
    if (more && t->tick.on)
        timer_set(t->jobs->loop, &t->tick, clock_now());
}

static void rewind_lines(struct task *t)
{
    if (!t->tail.is_open || lseek(t->tail.fd, 0, SEEK_SET) < 0)
        return;
    tail_open(&t->tail, t->tail.fd);
    t->n_skip = t->job.n_copied;
    t->n_models = 0; /* they are counted again */
    t->lines = (struct line_limit){0};
    t->is_cut = false;
}

void runner_events_again(struct task *t)
{
    if (t->is_cut)
        rewind_lines(t);
    runner_events_read(t);
}

static void on_events_written(void *arg)
{
    runner_events_read(arg);
}

/* Records a dead runner's last log lines as log events. Non-printable bytes are replaced. */
static void record_last_log_lines(struct task *t)
{
    char buf[LOG_TAIL_BYTES + 1];
    const char *lines[LAST_LOG_LINES + 1];
    size_t n_lines = 0, n;
    uint64_t bytes;
    struct err e;
    ssize_t got;
    int fd;

    if (artifact_open(&fd, &bytes, t->jobs->dir_fd, task_folder(t), artifact_name(ARTIFACT_LOG), &e) < 0)
        return;
    n = bytes < LOG_TAIL_BYTES ? (size_t)bytes : LOG_TAIL_BYTES;
    got = pread(fd, buf, n, (off_t)(bytes - n));
    close(fd);
    if (got <= 0)
        return;
    n = (size_t)got;
    while (n > 0 && buf[n - 1] == '\n')
        n--;
    buf[n] = '\0';
    for (size_t i = 0; i < n; i++)
        if (buf[i] != '\n' && (buf[i] < ' ' || buf[i] > '~'))
            buf[i] = '?';
    for (char *p = buf + n; p > buf && n_lines < LAST_LOG_LINES; p--)
        if (p[-1] == '\n') {
            p[-1] = '\0';
            lines[n_lines++] = p;
        }
    if (n_lines < LAST_LOG_LINES && n > 0)
        lines[n_lines++] = buf;
    while (n_lines > 0) {
        struct event ev;

        event_init(&ev, EVENT_LOG);
        snprintf(ev.level, sizeof ev.level, "info");
        snprintf(ev.text, 1024, "%s", lines[--n_lines]);
        if (task_record(t, &ev, &e) < 0)
            return;
    }
}

/* Returns whether the runner ended because the agent stopped it. It may fail while it stops; a job that was
 * stopped for a failure, such as its time limit, keeps that reason. */
static bool ended_by_stop(const struct task *t)
{
    const struct event *end = t->end;

    return t->stop_reason[0] && (!end || end->state == JOB_CANCELLED ||
                                 (end->state == JOB_FAILED && job_end_for(t->stop_reason) == JOB_FAILED));
}

/* Records the lines that were held back in a flood, and how many were dropped. */
static void note_dropped_lines(struct task *t)
{
    struct event ev;
    struct err e;

    record_held(t, true);
    if (t->lines.n_dropped == 0)
        return;
    event_init(&ev, EVENT_LOG);
    snprintf(ev.level, sizeof ev.level, "warn");
    snprintf(ev.text, sizeof ev.text,
             "the agent has left out %llu of the %llu lines that the runner wrote: it takes %d a second",
             (unsigned long long)t->lines.n_dropped, (unsigned long long)t->lines.n_seen, LINE_RATE);
    log_line(LOG_LEVEL_WARN, "agent", t->job.spec.id, "runner: %s", ev.text);
    task_record(t, &ev, &e);
}

/* A reported success counts if the agent's own check confirms it. A lack of memory may be over a moment
 * later. */
static void conclude_success(struct task *t)
{
    char message[MESSAGE_MAX];
    struct err e;

    if (success_check(t, message, &e) == 0 || (e.code == ERR_NOMEM && success_check(t, message, &e) == 0))
        job_finish(t, JOB_SUCCEEDED, "", message);
    else
        job_finish(t, JOB_FAILED, e.code == ERR_REFUSED ? REASON_FALSE_SUCCESS : REASON_INTERNAL, e.text);
}

/* For an end that the runner reports and the agent did not cause. Only the agent knows whether a node was
 * cancelled, restarted or interrupted, so such a report is a failure: a codec may have written the line. */
static void conclude_reported(struct task *t, const struct event *end)
{
    char message[MESSAGE_MAX];

    if (end->state == JOB_FAILED && reason_is_of_runner(end->reason)) {
        job_finish(t, JOB_FAILED, end->reason, end->message);
        return;
    }
    if (end->state == JOB_CANCELLED)
        snprintf(message, sizeof message,
                 "job_runner reported that it was cancelled, and nobody has cancelled it here: did another "
                 "program send it a signal?");
    else
        snprintf(message, sizeof message, "job_runner reported a reason that only its agent may give: %s",
                 end->reason[0] ? end->reason : "none");
    job_finish(t, JOB_FAILED, REASON_RUNNER_DIED, message);
}

void runner_events_conclude(struct task *t, const char *reason, const char *how)
{
    const struct event *end = t->end;
    bool was_stopped = ended_by_stop(t);

    note_dropped_lines(t);
    if (!was_stopped && end && end->state == JOB_SUCCEEDED &&
        job_state_may_follow(t->job.state, end->state)) {
        conclude_success(t);
        return;
    }
    if (was_stopped) {
        job_finish(t, job_end_for(t->stop_reason), t->stop_reason, t->stop_message);
    } else if (end && job_state_may_follow(t->job.state, end->state)) {
        conclude_reported(t, end);
    } else if (end) {
        job_finish(t, JOB_FAILED, REASON_RUNNER_DIED, "job_runner reported success before it was started");
    } else {
        record_last_log_lines(t);
        job_finish(t, JOB_FAILED, reason, how);
    }
}

static bool is_own(void *arg, pid_t child)
{
    const struct jobs *jobs = arg;

    for (const struct task *t = jobs->first; t; t = t->next)
        if (t->runner.pid == child)
            return true;
    return inquiry_is_own(&jobs->trainer_about.inquiry, child) ||
           inquiry_is_own(&jobs->runner_about.inquiry, child) ||
           (jobs->is_other_child && jobs->is_other_child(jobs->other_children, child));
}

/* Without seccomp a codec may have started processes in sessions of their own, whose parents have ended. */
static void end_orphans(struct jobs *jobs)
{
    if (jobs->is_subreaper)
        process_end_orphans(is_own, jobs);
}

/* The runner may have left megabytes of events: each turn of the loop reads a bounded part, so that other
 * work continues. The pidfd stays readable until then, and the rest of the process group, which is killed,
 * writes no more. */
static void on_runner_gone(void *arg, uint32_t events)
{
    struct task *t = arg;
    char how[MESSAGE_MAX];

    (void)events;
    notify_remove(&t->jobs->notify, &t->events_file);
    loop_unwatch(t->jobs->loop, &t->order_watch);
    runner_signal(&t->runner, SIGKILL);
    if (++t->n_last_turns < LAST_TURNS_MAX && read_lines(t))
        return;
    if (t->is_cut && !t->is_read_again) { /* once more: after this the lines are lost */
        t->is_read_again = true;
        rewind_lines(t);
        return;
    }
    loop_unwatch(t->jobs->loop, &t->runner_watch);
    runner_reap(&t->runner, how, sizeof how);
    end_orphans(t->jobs);
    if (!job_state_is_terminal(t->job.state))
        runner_events_conclude(t, REASON_RUNNER_DIED, how);
}

static int open_events(struct task *t, struct err *e)
{
    uint64_t bytes;
    int fd;

    if (artifact_open(&fd, &bytes, t->jobs->dir_fd, task_folder(t), artifact_name(ARTIFACT_EVENTS), e) < 0)
        return e->code;
    tail_open(&t->tail, fd);
    return 0;
}

/* Watches the process first: its end must be noticed even if it has damaged its file. */
int runner_events_start(struct task *t, struct err *e)
{
    struct jobs *jobs = t->jobs;
    struct err why;

    t->runner_watch = (struct watch){.fd = t->runner.pidfd, .ready = on_runner_gone, .arg = t};
    if (loop_watch(jobs->loop, &t->runner_watch, EPOLLIN, e) < 0 || open_events(t, e) < 0)
        return e->code;
    t->events_file = (struct notify_file){.written = on_events_written, .arg = t};
    if (notify_add(&jobs->notify, &t->events_file, t->tail.fd, &why) < 0) /* the tick reads once a second */
        log_line(LOG_LEVEL_WARN, "agent", t->job.spec.id, "%s; the runner's events are read once a second",
                 why.text);
    return 0;
}

void runner_events_past(struct task *t)
{
    struct err e;

    if (open_events(t, &e) < 0)
        return;
    while (t->n_last_turns++ < LAST_TURNS_MAX && read_lines(t))
        continue;
}
