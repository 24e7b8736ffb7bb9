#include "submit/verbs/queued_job.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "shared/base/clock.h"
#include "shared/base/json.h"
#include "shared/job/reason.h"
#include "submit/export/export.h"
#include "submit/queue/queue_process.h"
#include "submit/queue/queued_files.h"
#include "submit/results/job_index.h"
#include "submit/results/queue_folder.h"
#include "submit/results/queue_status.h"
#include "submit/results/results.h"
#include "submit/results/run_json.h"
#include "submit/stages/retry.h"
#include "submit/stages/stages.h"
#include "submit/terminal/console.h"
#include "submit/terminal/exit_status.h"
#include "submit/terminal/interrupt.h"
#include "submit/terminal/stdout.h"
#include "submit/terminal/text.h"
#include "submit/verbs/submitted_job.h"
#include "submit/verbs/verbs.h"

/* From one report of a job's place to the next; from one look at it to the next; most time for a waiting job
 * to leave the queue after it was cancelled. */
static const double WAIT_REPORT_S = 30, WAIT_STEP_S = 0.2, CANCEL_S = 30;

/* The first and the longest pause before an agent is asked again for results. */
static const double COLLECT_S = 0.5, COLLECT_MOST_S = 16;

static int enter_queue(struct submission *s, const struct options *o, struct err *e)
{
    const struct queue_place place = {.priority = o->priority, .number = s->submitted_at};
    struct err why;

    s->is_queued = true;
    if (stage_read(s, e) < 0 || stage_check(s, e) < 0)
        goto fail;
    if (queued_files_write(s, &place, e) < 0)
        goto fail;
    s->made_folder = s->made_parts = false;
    queue_folder_ring();
    if (queue_process_watch(&why) < 0)
        console_error("The job is in the queue, but %s. next: job_submit list", why.text);
    return 0;
fail:
    results_abandon(s);
    return e->code;
}

static void print_entry(const struct submission *s)
{
    console_plain("Job %s is in the queue. next:", s->id);
    console_plain("  job_submit wait %s      shows its progress and its results", s->id);
    console_plain("  job_submit list         shows the queue");
    console_plain("  job_submit cancel %s    takes it out of the queue, or ends it", s->id);
    if (s->opt->json)
        stdout_json(true, json_pack("{s:s, s:o}", "id", s->id, "folder", json_text(s->folder, SIZE_MAX)),
                    NULL, NULL);
    else
        printf("%s\n", s->id);
}

int queued_job_submit(const struct options *o, struct err *e)
{
    struct submission s;
    int rc = submission_init(&s, o, e) < 0 ? e->code : enter_queue(&s, o, e);

    if (rc == 0)
        print_entry(&s);
    submission_clear(&s);
    return rc;
}

/* "place 3 of 12, priority 5: 1 of 2 agents ..." */
static void say_place(char *out, size_t size, const struct queue_view *v)
{
    char priority[32] = "";

    if (v->priority)
        snprintf(priority, sizeof priority, ", priority %d", v->priority);
    snprintf(out, size, "place %zu of %zu%s%s%s", v->place, v->n_waiting, priority, v->why[0] ? ": " : "",
             v->why);
}

static json_t *waiting_json(const struct submission *s, const struct queue_view *v, long watcher)
{
    char at[CLOCK_TEXT];

    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:I, s:I, s:i, s:o, s:o}", "id", s->id, "name",
                     s->settings.name, "state", "queued", "submitted_at", clock_text(at, s->submitted_at),
                     "folder", s->folder, "place", (json_int_t)v->place, "waiting", (json_int_t)v->n_waiting,
                     "priority", v->priority, "waits_because", json_text(v->why, SIZE_MAX), "watcher",
                     watcher ? json_integer(watcher) : json_null());
}

int queued_job_show(const struct options *o, const struct submission *s, struct err *e)
{
    struct queue_state state = {0};
    struct queue_view v;
    char place[800], since[TEXT_AMOUNT];

    if (queue_state_read(&state, e) < 0) {
        queue_state_clear(&state);
        return e->code;
    }
    queue_state_view(&v, &state, s->id);
    say_place(place, sizeof place, &v);
    if (o->json) {
        stdout_json(true, waiting_json(s, &v, state.watcher), NULL, NULL);
    } else {
        text_print("Job %s (%s, %s) waits in the queue since %s, %s.\n", s->id, s->settings.name,
                   s->settings.codec, text_hour(since, s->submitted_at), place);
        if (state.watcher)
            text_print("Process %ld, job_submit queue watch, starts it.\n", state.watcher);
    }
    queue_state_clear(&state);
    return 0;
}

/* Prints the place of the job every WAIT_REPORT_S seconds. */
static int report_place(double *reported_at, const char *id, struct err *e)
{
    struct queue_state state = {0};
    struct queue_view v;
    char place[800];
    int rc;

    if (*reported_at > 0 && clock_now() - *reported_at < WAIT_REPORT_S)
        return 0;
    rc = queue_state_read(&state, e);
    if (rc == 0) {
        queue_state_view(&v, &state, id);
        say_place(place, sizeof place, &v);
        console_info("Waiting in the queue, %s (Ctrl-C stops waiting).", place);
        *reported_at = clock_now();
    }
    queue_state_clear(&state);
    return rc;
}

/* Waits until the job is started, or has left the queue. Sets *was_queued if it has ever been there. */
static int wait_for_start(struct submission *s, bool *was_queued, const struct options *o, const char *id,
                          struct err *e)
{
    double deadline = o->timeout_s > 0 ? clock_now() + o->timeout_s : 0, reported_at = 0;

    for (;;) {
        int rc = submitted_job_load(s, o, id, e);

        if (deadline > 0)
            s->deadline = deadline;
        *was_queued |= rc == 0 && (s->has_not_run || queue_folder_has(s->id));
        if (rc < 0 || !queue_state_waits(s) || (rc = report_place(&reported_at, s->id, e)) < 0 ||
            (rc = queue_process_watch(e)) < 0 || (rc = submission_check_time(s, e)) < 0)
            return rc;
        http_poll(s->http, WAIT_STEP_S);
        submission_clear(s);
    }
}

/* The job's own process watches it, too, and fetches its results. */
static int wait_for_results(struct submission *s, struct err *e)
{
    if (!queue_folder_has(s->id))
        return 0;
    submitted_job_ask_nodes(s, SUBMITTED_ASK_S);
    for (size_t i = 0; i < s->n_nodes; i++)
        s->nodes[i].is_reserved = true;
    console_info("Following %s (%s).", s->id, s->settings.name);
    if (stage_watch(s, e) < 0)
        return e->code;
    while (queue_folder_has(s->id)) {
        json_t *record;
        bool is_queued;

        if (queue_process_watch(e) < 0 || submission_check_time(s, e) < 0 ||
            job_index_read_id(&record, s->id, e) < 0)
            return e->code;
        is_queued = json_is_true(json_object_get(record, "queued"));
        json_decref(record);
        if (is_queued)
            break;
        http_poll(s->http, WAIT_STEP_S);
    }
    return 0;
}

int queued_job_end(const struct submission *s)
{
    if (s->has_not_run)
        console_error("Job %s %s in the queue: %s: %s", s->id, job_state_name(s->state), s->seen.reason,
                      s->seen.message);
    return verb_exit_status(s);
}

/* The job, which was in the queue, has left it. Returns its exit status; negative: its results are not
 * here. */
static int show_end(const struct options *o, const char *id, struct err *e)
{
    struct submission s;
    int rc = submitted_job_load(&s, o, id, e);

    if (rc == 0)
        rc = s.has_not_run || (!o->output[0] && submitted_job_show_kept(&s)) ? queued_job_end(&s) : -1;
    submission_clear(&s);
    return rc;
}

int queued_job_wait(bool *is_shown, const struct options *o, const char *id, struct err *e)
{
    struct submission s;
    bool is_waiting = true, was_queued = false;
    int rc;

    *is_shown = false;
    do {
        rc = wait_for_start(&s, &was_queued, o, id, e);
        if (rc == 0)
            rc = wait_for_results(&s, e);
        is_waiting = rc == 0 && queue_folder_has(s.id);
        if (is_waiting)
            submission_clear(&s);
    } while (is_waiting);
    if (rc < 0 && (e->code == ERR_CANCELLED || e->code == ERR_TIMEOUT)) {
        console_bars(NULL, 0);
        console_plain("Job %s stays in the queue. next: job_submit wait %s", s.id, s.id);
        *is_shown = true;
        rc = interrupt_signal() ? 128 + interrupt_signal() : EXIT_TIMEOUT;
    }
    submission_clear(&s);
    if (rc != 0 || !was_queued)
        return rc;
    rc = show_end(o, id, e);
    *is_shown = rc >= 0;
    return *is_shown ? rc : 0;
}

int queued_job_cancel(bool *is_done, const struct options *o, const char *id, struct err *e)
{
    double until = clock_now() + CANCEL_S;
    int rc = queue_folder_cancel(id, o->reason, e);

    *is_done = false;
    if (rc < 0)
        return queue_folder_has(id) ? rc : 0; /* it has just left the queue */
    while (rc == 0 && !*is_done) {
        struct submission s;

        if ((rc = queue_process_watch(e)) < 0 || (rc = submitted_job_load(&s, o, id, e)) < 0)
            return rc;
        *is_done = !queue_folder_has(id) && job_state_is_terminal(s.state);
        if (!*is_done && !s.is_queued) {
            submission_clear(&s);
            return 0;
        }
        if (!*is_done && clock_now() > until)
            rc = err_set(e, ERR_TIMEOUT, "%s did not leave the queue within %g s", id, CANCEL_S);
        if (!*is_done && rc == 0)
            rc = interrupt_check(e);
        if (!*is_done && rc == 0)
            http_poll(s.http, WAIT_STEP_S);
        submission_clear(&s);
    }
    return rc < 0 ? rc : 0;
}

/* Tells the watcher that the agents count the job's nodes. */
static void say_placed(void)
{
    const char byte = QUEUE_PLACED;

    send(QUEUE_PROCESS_FD, &byte, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* Is the attempt to start it to be repeated? Other errors will be the same next time. */
static bool is_passing(const struct err *e)
{
    static const int codes[] = {ERR_BUSY,    ERR_UNREACHABLE, ERR_CANCELLED, ERR_LOST,
                                ERR_TIMEOUT, ERR_CONFLICT,    ERR_NOT_FOUND};

    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
        if (e->code == codes[i])
            return true;
    return false;
}

static int leave_queue(const char *id, struct err *e)
{
    int rc = queue_folder_remove(id, e);

    queue_folder_ring();
    return rc < 0 ? rc : QUEUE_JOB_ENDED;
}

/* The end of a job that has never run: the records have its reason, and there are no results. */
static int end_unstarted(struct submission *s, enum job_state state, const char *reason, const char *message,
                         struct err *e)
{
    node_end(&s->nodes[0], state, reason, message);
    s->cause = 0;
    s->state = state;
    s->is_queued = false;
    s->has_not_run = true;
    results_abandon(s);
    if (job_index_save(s, e) < 0)
        return e->code;
    return leave_queue(s->id, e);
}

/* Writes the number of the job's last attempt, before an agent sees it. */
static int put_attempt(const char *id, int attempt, struct err *e)
{
    json_t *o = json_pack("{s:i}", "attempt", attempt);
    int rc = queue_folder_put(id, QUEUE_ATTEMPT, o, e);

    json_decref(o);
    return rc;
}

/* The job waits again: its next attempt has another number, so that agents refuse requests of this one. */
static int wait_again(struct submission *s, struct err *e)
{
    if (put_attempt(s->id, s->attempt, e) < 0)
        return e->code;
    s->is_queued = true;
    s->is_started = false;
    s->state = JOB_PENDING;
    s->cause = -1;
    return job_index_save(s, e) < 0 ? e->code : QUEUE_JOB_WAITS;
}

static bool read_cancel(char *reason, size_t size, const char *id)
{
    json_t *o = queue_folder_get(id, QUEUE_CANCEL);
    bool is_cancelled = o != NULL;

    snprintf(reason, size, "%s", json_text_at(o, "reason"));
    json_decref(o);
    return is_cancelled;
}

/* Has an attempt with that reason ended because its agents were stopped or restarted, which is no end of the
 * job? */
static bool is_ended_by_agent(const char *reason)
{
    static const char *const by_agent[] = {REASON_AGENT_STOPPED, REASON_AGENT_RESTARTED,
                                           REASON_LEASE_EXPIRED};

    for (size_t i = 0; i < sizeof by_agent / sizeof *by_agent; i++)
        if (strcmp(reason, by_agent[i]) == 0)
            return true;
    return false;
}

/* Collects and prints the results of a job that has ended. An agent that does not answer now may be
 * restarting, so what it has is asked for again, after longer and longer pauses. Returns the job's exit
 * status. */
static int collect_results(struct submission *s, struct err *e)
{
    int status = verb_conclude(s, e);

    for (double pause_s = COLLECT_S; !s->is_complete && pause_s <= COLLECT_MOST_S; pause_s *= 2) {
        double until = clock_now() + pause_s;

        while (clock_now() < until && !interrupt_signal())
            http_poll(s->http, until - clock_now());
        if (interrupt_signal())
            break;
        submitted_job_ask_nodes(s, SUBMITTED_ASK_S);
        status = verb_conclude(s, e);
    }
    return status;
}

/* The further attempts of --retries, on the same agents. They wait for a slot that another job has got
 * meanwhile; if one cannot be started, the job waits in the queue again. */
static int try_again(struct submission *s, struct options *o, int status, struct err *e)
{
    o->no_queue = false;
    while ((status == EXIT_JOB_FAILED || status == EXIT_CANCELLED) && retry_is_due(s)) {
        if (put_attempt(s->id, s->attempt + 1, e) < 0)
            return e->code;
        status = verb_next_attempt(s, e);
        if (status >= 0)
            continue;
        console_error("%s", e->text);
        if (interrupt_signal() || is_passing(e))
            return wait_again(s, e);
        break;
    }
    if (s->state == JOB_SUCCEEDED && o->retries > 0)
        retry_remove_copies(s);
    return interrupt_check(e) < 0 ? e->code : leave_queue(s->id, e);
}

/* Follows a job that has been started to its end. `o`: its options, s->opt. */
static int follow_job(struct submission *s, struct options *o, struct err *e)
{
    if (stage_watch(s, e) < 0)
        return e->code;
    if (s->cause >= 0 && is_ended_by_agent(s->nodes[s->cause].view.reason) && !retry_is_due(s)) {
        console_info("The job waits in the queue again: %s.", s->nodes[s->cause].view.reason);
        return wait_again(s, e);
    }
    return try_again(s, o, collect_results(s, e), e);
}

static int start_job(struct submission *s, struct err *e)
{
    char reason[201];

    s->is_queued = false;
    if (export_prepare(s, e) < 0 || stage_place(s, e) < 0)
        return e->code;
    say_placed();
    if (read_cancel(reason, sizeof reason, s->id))
        return err_set(e, ERR_CANCELLED, "%s", reason);
    return verb_start_placed(s, e);
}

/* Places, starts and follows the job. */
static int run_job(struct submission *s, struct options *o, struct err *e)
{
    char reason[201];
    struct err ignored;

    if (start_job(s, e) == 0) {
        if (read_cancel(reason, sizeof reason, s->id)) /* its sender has not seen that it was started */
            submission_cancel(s, reason, false);
        return follow_job(s, o, e);
    }
    verb_undo(s, e);
    if (interrupt_signal() || is_passing(e)) {
        console_error("%s", e->text);
        return wait_again(s, &ignored);
    }
    return end_unstarted(s, JOB_FAILED, REASON_NOT_STARTED, e->text, e);
}

/* The agents and the number of the attempt that the watcher has noted. */
static json_t *read_attempt(int *attempt, const char *id)
{
    json_t *o = queue_folder_get(id, QUEUE_ATTEMPT), *nodes = json_incref(json_object_get(o, "nodes"));

    *attempt = (int)json_number_at(o, "attempt", 1);
    json_decref(o);
    return nodes;
}

/* Does the record in the index say that this job was started? */
static bool was_started(const char *id)
{
    struct err ignored;
    json_t *record;
    bool is_so;

    if (job_index_read_id(&record, id, &ignored) < 0)
        return false;
    is_so = !json_is_true(json_object_get(record, "queued"));
    json_decref(record);
    return is_so;
}

/* Has every node been started? Some may have got the order, and others not, before the process that sent it
 * was killed; their keys are lost with it. */
static bool is_started_whole(const struct submission *s)
{
    for (size_t i = 0; i < s->n_nodes; i++) {
        const struct job_node *n = &s->nodes[i];

        bool is_away = n->silent_since > 0 && n->silence.code != ERR_NOT_FOUND;

        if (!is_away && !n->view.started_at[0]) /* an agent that is away may come back: stage_watch() waits */
            return false;
    }
    return true;
}

/* Fetches the results of a job whose end is in the index, as far as its agents still have them. */
static int finish_ended(struct submission *s, struct err *e)
{
    json_t *run = results_kept(s);

    if (!run && results_begin(s, e) < 0)
        console_error("%s", e->text);
    if (!run)
        collect_results(s, e);
    json_decref(run);
    return interrupt_check(e) < 0 ? e->code : leave_queue(s->id, e);
}

static int follow_started(struct submission *s, struct options *o, struct err *e)
{
    for (size_t i = 0; i < s->n_nodes; i++)
        s->nodes[i].is_reserved = true;
    if (!is_started_whole(s)) {
        submission_release(s, "the order to start has not reached all nodes");
        return wait_again(s, e);
    }
    s->state = JOB_PENDING;
    s->cause = -1;
    if (results_begin(s, e) < 0 || run_json_save(s, e) < 0)
        console_error("%s", e->text);
    return follow_job(s, o, e);
}

/* Is the end in the index that of the job? Every command about the job writes there what it has heard, also
 * the end of an attempt after which the job is tried again, or waits again. */
static bool is_settled(const struct submission *s)
{
    if (s->state == JOB_SUCCEEDED || strcmp(s->seen.reason, REASON_USER_CANCELLED) == 0)
        return true;
    for (size_t i = 0; i < s->n_nodes && job_state_is_terminal(s->state); i++)
        if (s->nodes[i].silent_since > 0 && s->nodes[i].silence.code == ERR_NOT_FOUND)
            return !is_ended_by_agent(s->seen.reason); /* its agent has forgotten it */
    return false;
}

/* Goes on with a job that an earlier process has started. */
static int resume_job(struct options *o, const char *id, struct err *e)
{
    struct submission s;
    int rc = submitted_job_load(&s, o, id, e);

    if (rc == 0)
        rc = export_prepare(&s, e);
    if (rc == 0) {
        submitted_job_ask_nodes(&s, SUBMITTED_ASK_S);
        rc = is_settled(&s) ? finish_ended(&s, e) : follow_started(&s, o, e);
    }
    submission_clear(&s);
    return rc;
}

/* A job whose files in the queue cannot be read will never run; its record is in the index. */
static int end_unreadable(const struct options *o, const char *id, struct err *e)
{
    struct err why = *e;
    struct submission s;
    int rc = submitted_job_load(&s, o, id, e);

    if (rc == 0)
        rc = end_unstarted(&s, JOB_FAILED, REASON_NOT_STARTED, why.text, e);
    submission_clear(&s);
    return rc;
}

static int run_new(struct options *o, const json_t *doc, const char *id, struct err *e)
{
    char reason[201];
    struct submission s;
    json_t *agents;
    int attempt;
    int rc = submission_init(&s, o, e);

    agents = read_attempt(&attempt, id);
    s.attempt = attempt;
    if (rc == 0)
        rc = queued_files_read(&s, doc, agents, e);
    if (rc == ERR_BUSY)
        rc = QUEUE_JOB_WAITS;
    else if (rc < 0)
        rc = end_unreadable(o, id, e);
    else if (read_cancel(reason, sizeof reason, id))
        rc = end_unstarted(&s, JOB_CANCELLED, REASON_USER_CANCELLED, reason, e);
    else
        rc = agents ? run_job(&s, o, e) : QUEUE_JOB_WAITS;
    json_decref(agents);
    submission_clear(&s);
    return rc;
}

/* `doc` NULL: it cannot be read, as `e` says. The nodes of a job that was started need no document: it is
 * followed by its record in the index. */
static int run_queued(struct options *o, const json_t *doc, const char *id, struct err *e)
{
    console_init(0, true);
    if (was_started(id)) {
        if (!doc)
            console_error("%s: the job is followed with the default options", e->text);
        return resume_job(o, id, e);
    }
    return doc ? run_new(o, doc, id, e) : end_unreadable(o, id, e);
}

int queued_job_run(const char *id, struct err *e)
{
    static struct options o;
    json_t *doc;
    int lock, rc;

    fcntl(QUEUE_PROCESS_FD, F_SETFD, FD_CLOEXEC);
    if (!job_id_is_valid(id))
        return err_set(e, ERR_USAGE, "\"%s\" is no id of a job", id);
    lock = queue_folder_lock(id, NULL, e);
    if (lock < 0)
        return lock;
    rc = queued_files_read_options(&o, &doc, id, e);
    if (rc == 0 || queue_folder_has(id))
        rc = run_queued(&o, doc, id, e);
    json_decref(doc);
    options_clear(&o);
    close(lock);
    return rc;
}
