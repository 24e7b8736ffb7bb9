#include "agent/jobs/job.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "shared/base/clock.h"
#include "shared/base/json.h"

void job_init(struct job *j)
{
    *j = (struct job){
        .loss = NAN, .accuracy = NAN, .eval_loss = NAN, .eval_accuracy = NAN, .waits_for = EVENT_NO_NODE};
}

/* A state may repeat with another reason; a terminal one is final. */
static int apply_state(struct job *j, const struct event *ev, struct err *e)
{
    bool repeats = ev->state == j->state && !job_state_is_terminal(j->state);

    if (!repeats && !(j->has_gap ? job_state_can_reach : job_state_may_follow)(j->state, ev->state))
        return err_set(e, ERR_CONFLICT, "%s is %s, %s cannot follow", j->spec.id, job_state_name(j->state),
                       job_state_name(ev->state));
    if (ev->state == JOB_RUNNING && j->started_at == 0)
        j->started_at = ev->at;
    if (job_state_is_terminal(ev->state))
        j->finished_at = ev->at;
    j->state = ev->state;
    memcpy(j->reason, ev->reason, sizeof j->reason);
    memcpy(j->message, ev->message, sizeof j->message);
    if (ev->data_key[0])
        memcpy(j->data_key, ev->data_key, sizeof j->data_key);
    return 0;
}

/* Only a job that was started makes progress, so the line with the state `running` is among the missing
 * ones. */
static void infer_running(struct job *j, const struct event *ev)
{
    if (!j->has_gap || !job_state_can_reach(j->state, JOB_RUNNING))
        return;
    j->state = JOB_RUNNING;
    j->started_at = ev->at;
}

static int apply_progress(struct job *j, const struct event *ev, struct err *e)
{
    (void)e;
    infer_running(j, ev);
    j->epoch = ev->epoch;
    j->epochs = ev->epochs;
    j->step = ev->step;
    j->steps = ev->steps;
    j->samples = ev->samples;
    j->loss = ev->loss;
    j->accuracy = ev->accuracy;
    j->comm = ev->comm;
    if (ev->waits_for != j->waits_for)
        j->waits_since = ev->at;
    j->waits_for = ev->waits_for;
    j->n_copied++;
    return 0;
}

static int apply_eval(struct job *j, const struct event *ev, struct err *e)
{
    (void)e;
    infer_running(j, ev);
    j->eval_loss = ev->loss;
    j->eval_accuracy = ev->accuracy;
    j->n_copied++;
    return 0;
}

static int apply_stopped(struct job *j, const struct event *ev, struct err *e)
{
    (void)e;
    infer_running(j, ev);
    j->stopped = (struct stop){ev->stop, ev->step, ev->loss, ev->accuracy};
    j->n_copied++;
    return 0;
}

static int apply_result(struct job *j, const struct event *ev, struct err *e)
{
    (void)e;
    infer_running(j, ev);
    memcpy(j->params_sha256, ev->params_sha256, sizeof j->params_sha256);
    j->combined_nothing = ev->combined_nothing;
    j->n_copied++;
    return 0;
}

static int apply_log(struct job *j, const struct event *ev, struct err *e)
{
    (void)ev;
    (void)e;
    j->n_copied++;
    return 0;
}

static int apply_engine(struct job *j, const struct event *ev, struct err *e)
{
    (void)e;
    memcpy(j->engine, ev->text, sizeof j->engine);
    j->n_copied++;
    return 0;
}

/* The runner reports its isolation once, before it loads the codec; a later line may be the codec's. */
static int apply_isolation(struct job *j, const struct event *ev, struct err *e)
{
    if (j->is_isolation_known || j->state != JOB_PREPARING)
        return err_set(e, ERR_CONFLICT, "%s: its isolation was reported before", j->spec.id);
    j->is_isolation_known = true;
    j->isolation = ev->isolation;
    j->n_copied++;
    return 0;
}

static int apply_ready(struct job *j, const struct event *ev, struct err *e)
{
    (void)ev;
    return err_set(e, ERR_CONFLICT, "%s: \"ready\" is sent by a runner and is not an event of the journal",
                   j->spec.id);
}

static int apply_reserve(struct job *j, const struct event *ev, struct err *e)
{
    if (j->spec.id[0])
        return err_set(e, ERR_CONFLICT, "%s is reserved twice", j->spec.id);
    j->spec = ev->spec;
    j->order = ev->order;
    memcpy(j->owner, ev->owner, sizeof j->owner);
    memcpy(j->key_sha256, ev->key_sha256, sizeof j->key_sha256);
    j->created_at = ev->at;
    return 0;
}

static int apply_socket(struct job *j, const struct event *ev, struct err *e)
{
    (void)e;
    j->data_port = ev->data_port;
    j->slot = ev->slot;
    return 0;
}

static int apply_package(struct job *j, const struct event *ev, struct err *e)
{
    enum package p;

    if (!package_parse(&p, ev->package))
        return err_set(e, ERR_CONFLICT, "%s: no package \"%s\"", j->spec.id, ev->package);
    if (!j->has_gap && j->state != JOB_PENDING && j->state != JOB_PREPARING)
        return err_set(e, ERR_CONFLICT, "%s is %s and accepts no package", j->spec.id,
                       job_state_name(j->state));
    j->packages[p].here = true;
    memcpy(j->packages[p].hex, ev->hex, sizeof ev->hex);
    return 0;
}

static int apply_runner(struct job *j, const struct event *ev, struct err *e)
{
    if (j->pid || (!j->has_gap && j->state != JOB_PREPARING))
        return err_set(e, ERR_CONFLICT, "%s is %s and accepts no runner", j->spec.id,
                       job_state_name(j->state));
    j->pid = ev->pid;
    j->start_ticks = ev->start_ticks;
    memcpy(j->boot, ev->boot, sizeof j->boot);
    return 0;
}

static int apply_start(struct job *j, const struct event *ev, struct err *e)
{
    if (!j->has_gap && j->state != JOB_READY)
        return err_set(e, ERR_CONFLICT, "%s is %s, not ready", j->spec.id, job_state_name(j->state));
    memcpy(j->digest, ev->digest, sizeof j->digest);
    j->started_monotonic = ev->monotonic_s;
    return 0;
}

static int apply_skipped(struct job *j, const struct event *ev, struct err *e)
{
    (void)e;
    j->n_copied += ev->n_lines;
    return 0;
}

typedef int apply_fn(struct job *, const struct event *, struct err *);

static apply_fn *const apply[N_EVENT_KINDS] = {
    [EVENT_STATE] = apply_state,    [EVENT_PROGRESS] = apply_progress, [EVENT_EVAL] = apply_eval,
    [EVENT_LOG] = apply_log,        [EVENT_STOPPED] = apply_stopped,   [EVENT_ENGINE] = apply_engine,
    [EVENT_END] = apply_state,      [EVENT_RESULT] = apply_result,     [EVENT_ISOLATION] = apply_isolation,
    [EVENT_READY] = apply_ready,    [NOTE_RESERVE] = apply_reserve,    [NOTE_SOCKET] = apply_socket,
    [NOTE_PACKAGE] = apply_package, [NOTE_RUNNER] = apply_runner,      [NOTE_START] = apply_start,
    [NOTE_SKIPPED] = apply_skipped,
};

int job_apply(struct job *j, const struct event *ev, struct err *e)
{
    bool is_note = event_is_note(ev);
    uint64_t expected = j->last_seq + 1;

    if (!is_note && (j->has_gap ? ev->seq < expected : ev->seq != expected))
        return err_set(e, ERR_CONFLICT, "%s: event %llu after %llu", j->spec.id, (unsigned long long)ev->seq,
                       (unsigned long long)j->last_seq);
    if (!j->spec.id[0] && ev->kind != NOTE_RESERVE)
        return err_set(e, ERR_CONFLICT, "an event before the reservation");
    if (job_state_is_terminal(j->state))
        return err_set(e, ERR_CONFLICT, "%s is %s: no event can follow", j->spec.id,
                       job_state_name(j->state));
    if (apply[ev->kind](j, ev, e) < 0)
        return e->code;
    if (is_note)
        return 0;
    j->n_copied += ev->seq - expected;
    j->last_seq = ev->seq;
    return 0;
}

bool job_lacks(const struct job *j, enum package p)
{
    if (p == PACKAGE_DATA && (strcmp(j->spec.role, "server") == 0 || j->spec.trainer[0]))
        return false; /* a training program reads its own data */
    if (p == PACKAGE_TRAINER && !job_spec_has_program(&j->spec))
        return false;
    if (p == PACKAGE_WEIGHTS && !j->spec.weights)
        return false;
    if (p == PACKAGE_MODEL && j->spec.executor)
        return false;
    return !j->packages[p].here;
}

bool job_is_complete(const struct job *j)
{
    for (int p = 0; p < N_PACKAGES; p++)
        if (job_lacks(j, (enum package)p))
            return false;
    return true;
}

bool job_is_pending(const struct job *j)
{
    return j->state == JOB_PENDING;
}

bool job_is_active(const struct job *j)
{
    return j->state != JOB_PENDING && !job_state_is_terminal(j->state);
}

static json_t *text_or_null(const char *s)
{
    return s[0] ? json_string(s) : json_null();
}

static json_t *time_or_null(double t)
{
    char text[CLOCK_TEXT];

    return t > 0 ? json_string(clock_text(text, t)) : json_null();
}

static json_t *requirements_json(const struct job *j)
{
    json_t *a = json_array();

    for (int p = 0; p < N_PACKAGES; p++)
        if (job_lacks(j, (enum package)p))
            json_array_append_new(a, json_string(package_names[p]));
    return a;
}

static json_t *progress_json(const struct job *j)
{
    double ratio = j->steps > 0 ? fmin(1, (double)j->step / (double)j->steps) : 0;

    return json_pack("{s:i,s:i,s:I,s:I,s:o}", "epoch", j->epoch, "epochs", j->epochs, "step",
                     (json_int_t)j->step, "steps", (json_int_t)j->steps, "ratio",
                     json_real(round(ratio * 1e3) / 1e3));
}

static json_t *waits_for_json(const struct job *j)
{
    if (j->state != JOB_RUNNING || j->waits_for == EVENT_NO_NODE)
        return json_null();
    return json_pack("{s:i,s:o}", "node", j->waits_for, "since", time_or_null(j->waits_since));
}

static json_t *message_json(const struct job *j)
{
    if (j->state == JOB_RUNNING && j->epochs > 0)
        return json_sprintf("epoch %d of %d", j->epoch, j->epochs);
    if (j->state == JOB_RUNNING && j->spec.executor)
        return json_sprintf("%llu %%", (unsigned long long)j->step);
    return json_text(j->message, SIZE_MAX);
}

json_t *job_json(const struct job *j, double now)
{
    const struct job_spec *s = &j->spec;
    double until = j->finished_at > 0 ? j->finished_at : now;
    double elapsed = j->started_at > 0 ? fmax(0, until - j->started_at) : 0;
    json_t *o = json_pack("{s:s,s:i,s:i,s:s,s:s,s:s,s:b,s:s}", "id", s->id, "attempt", s->attempt, "node",
                          s->node, "role", s->role, "name", s->name, "codec", s->codec, "executor",
                          (int)s->executor, "submitter_unverified", s->submitter);

    json_object_set_new(o, "node_count", json_integer(s->node_count));
    json_object_set_new(o, "server_count", json_integer(s->server_count));
    json_object_set_new(o, "submitter", text_or_null(j->owner));
    json_object_set_new(o, "codec_sha256", text_or_null(j->packages[PACKAGE_CODEC].hex[0]));
    json_object_set_new(o, "trainer", text_or_null(s->trainer));
    json_object_set_new(o, "trainer_sha256", text_or_null(j->packages[PACKAGE_TRAINER].hex[0]));
    json_object_set_new(o, "state", json_string(job_state_name(j->state)));
    json_object_set_new(o, "reason", text_or_null(j->reason));
    json_object_set_new(o, "message", message_json(j));
    json_object_set_new(o, "requirements", requirements_json(j));
    json_object_set_new(o, "data_port", j->data_port ? json_integer(j->data_port) : json_null());
    json_object_set_new(o, "data_key", text_or_null(j->data_key));
    json_object_set_new(o, "slot", j->data_port ? json_integer(j->slot) : json_null());
    json_object_set_new(o, "pid", j->pid ? json_integer(j->pid) : json_null());
    json_object_set_new(o, "engine", text_or_null(j->engine));
    json_object_set_new(o, "isolation",
                        j->is_isolation_known ? json_string(isolation_name(j->isolation)) : json_null());
    json_object_set_new(o, "created_at", time_or_null(j->created_at));
    json_object_set_new(o, "started_at", time_or_null(j->started_at));
    json_object_set_new(o, "finished_at", time_or_null(j->finished_at));
    json_object_set_new(o, "elapsed_s", json_real(round(elapsed * 1e3) / 1e3));
    json_object_set_new(o, "time_limit_s", json_real(s->time_limit_s));
    json_object_set_new(o, "progress", progress_json(j));
    json_object_set_new(o, "metrics",
                        json_pack("{s:o,s:o,s:o,s:o}", "loss", json_real_or_null(j->loss), "accuracy",
                                  json_real_or_null(j->accuracy), "eval_loss",
                                  json_real_or_null(j->eval_loss), "eval_accuracy",
                                  json_real_or_null(j->eval_accuracy)));
    json_object_set_new(o, "waits_for", waits_for_json(j));
    json_object_set_new(o, "stopped", stop_json(&j->stopped));
    json_object_set_new(o, "params_sha256", text_or_null(j->params_sha256));
    json_object_set_new(o, "combined_nothing", json_boolean(j->combined_nothing));
    json_object_set_new(o, "comm", comm_json(&j->comm));
    json_object_set_new(o, "last_seq", json_integer((json_int_t)j->last_seq));
    return o;
}
