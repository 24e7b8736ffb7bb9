#include "submit/net/reply.h"

#include <jansson.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "shared/base/json.h"
#include "shared/base/utf8.h"
#include "shared/job/settings.h"

static const char no_agent[] = "Another program than an agent may use this port.";

static int parse_object(json_t **out, const char *text, size_t len, struct err *e)
{
    if (json_parse(out, text ? text : "", len, "answer", e) < 0) {
        e->code = ERR_PROTOCOL;
        return err_hint(e, "%s", no_agent);
    }
    if (json_is_object(*out))
        return 0;
    json_decref(*out);
    err_set(e, ERR_PROTOCOL, "answer: not an object");
    return err_hint(e, "%s", no_agent);
}

static void get_text(char *out, size_t size, const json_t *o, const char *key)
{
    const char *s = json_string_value(json_object_get(o, key));

    snprintf(out, size, "%s", s ? s : "");
    utf8_clean(out, strlen(out), false);
}

static double get_number(const json_t *o, const char *key, double missing)
{
    const json_t *v = json_object_get(o, key);
    double d = json_number_value(v);

    return json_is_number(v) && isfinite(d) ? d : missing;
}

static int64_t get_count(const json_t *o, const char *key, int64_t missing)
{
    const json_t *v = json_object_get(o, key);

    return json_is_integer(v) && json_integer_value(v) >= 0 ? json_integer_value(v) : missing;
}

static bool get_state(enum job_state *out, const json_t *o)
{
    const char *s = json_string_value(json_object_get(o, "state"));

    return s && job_state_parse(out, s);
}

void progress_view_init(struct progress_view *p)
{
    *p = (struct progress_view){.loss = NAN, .accuracy = NAN, .eval_loss = NAN, .eval_accuracy = NAN};
}

/* Updates `p` from an event or an object of a job: keys that are present replace earlier values. */
static void update_progress(struct progress_view *p, const json_t *o)
{
    p->epoch = get_count(o, "epoch", p->epoch);
    p->epochs = get_count(o, "epochs", p->epochs);
    p->step = get_count(o, "step", p->step);
    p->steps = get_count(o, "steps", p->steps);
    p->loss = get_number(o, "loss", p->loss);
    p->accuracy = get_number(o, "accuracy", p->accuracy);
    p->eval_loss = get_number(o, "eval_loss", p->eval_loss);
    p->eval_accuracy = get_number(o, "eval_accuracy", p->eval_accuracy);
    comm_update(&p->comm, o);
}

/* null, or missing: the node waits for no other node. */
static void take_wait(struct progress_view *p, const json_t *node)
{
    json_int_t v = json_integer_value(node);

    p->is_held_up = json_is_integer(node) && v >= -NODES_MAX - 1 && v < NODES_MAX;
    p->waits_for = p->is_held_up ? (int)v : 0;
}

static void take_result(struct progress_view *p, const json_t *o)
{
    get_text(p->params_sha256, sizeof p->params_sha256, o, "params_sha256");
    if (!is_sha256_hex(p->params_sha256))
        p->params_sha256[0] = '\0';
    p->combined_nothing = json_is_true(json_object_get(o, "combined_nothing"));
}

int reply_agent(struct agent_view *out, const char *text, size_t len, struct err *e)
{
    json_t *o;

    if (parse_object(&o, text, len, e) < 0)
        return e->code;
    *out = (struct agent_view){.api = (int)get_number(o, "api", 0),
                               .is_free = get_count(o, "slots_free", 0) > 0,
                               .cpus = get_number(o, "cpus", 0),
                               .monotonic_s = get_number(o, "monotonic_s", 0)};
    get_text(out->id, sizeof out->id, o, "id");
    get_text(out->version, sizeof out->version, o, "version");
    json_decref(o);
    if (!out->id[0])
        return err_set(e, ERR_PROTOCOL, "answer: /id: missing");
    if (out->api != 1)
        return err_set(e, ERR_PROTOCOL, "its version %s uses API %d; this job_submit uses API 1",
                       out->version, out->api);
    return 0;
}

/* One that is no key counts as none. */
static void get_data_key(char out[SHA256_HEX], const json_t *o)
{
    get_text(out, SHA256_HEX, o, "data_key");
    if (!is_sha256_hex(out))
        out[0] = '\0';
}

static int take_job(struct job_view *out, const json_t *o, struct err *e)
{
    const json_t *queue = json_object_get(o, "queue"), *item;
    enum package p;
    size_t i;

    *out = (struct job_view){0};
    progress_view_init(&out->progress);
    if (!get_state(&out->state, o))
        return err_set(e, ERR_PROTOCOL, "answer: /state: missing or not a job's state");
    get_text(out->reason, sizeof out->reason, o, "reason");
    get_text(out->message, sizeof out->message, o, "message");
    get_text(out->engine, sizeof out->engine, o, "engine");
    get_text(out->submitter, sizeof out->submitter, o, "submitter");
    get_text(out->isolation, sizeof out->isolation, o, "isolation");
    get_data_key(out->data_key, o);
    get_text(out->started_at, sizeof out->started_at, o, "started_at");
    get_text(out->finished_at, sizeof out->finished_at, o, "finished_at");
    json_array_foreach(json_object_get(o, "requirements"), i, item)
    {
        if (json_is_string(item) && package_parse(&p, json_string_value(item)))
            out->lacks[p] = true;
    }
    out->data_port = (int)fmin(get_number(o, "data_port", 0), 65536);
    out->queue_position = (int)fmin((double)get_count(queue, "position", 0), INT_MAX);
    out->queue_length = (int)fmin((double)get_count(queue, "length", 0), INT_MAX);
    get_text(out->queue_behind, sizeof out->queue_behind, queue, "behind");
    out->elapsed_s = get_number(o, "elapsed_s", 0);
    out->last_seq = (uint64_t)get_count(o, "last_seq", 0);
    update_progress(&out->progress, json_object_get(o, "progress"));
    update_progress(&out->progress, json_object_get(o, "metrics"));
    update_progress(&out->progress, json_object_get(o, "comm"));
    stop_parse(&out->progress.stopped, json_object_get(o, "stopped"));
    take_wait(&out->progress, json_object_get(json_object_get(o, "waits_for"), "node"));
    take_result(&out->progress, o);
    if (out->data_port < 0 || out->data_port > 65535)
        return err_set(e, ERR_PROTOCOL, "answer: /data_port: not a port");
    return 0;
}

int reply_job(struct job_view *out, const char *text, size_t len, struct err *e)
{
    json_t *o;
    int rc;

    if (parse_object(&o, text, len, e) < 0)
        return e->code;
    rc = take_job(out, o, e);
    json_decref(o);
    return rc;
}

int reply_newest_job(char id[REPLY_ID], struct job_view *out, const char *text, size_t len, struct err *e)
{
    const json_t *job;
    json_t *o;
    int rc = 0;

    id[0] = '\0';
    if (parse_object(&o, text, len, e) < 0)
        return e->code;
    job = json_array_get(json_object_get(o, "jobs"), 0);
    if (job) {
        get_text(id, REPLY_ID, job, "id");
        rc = id[0] ? take_job(out, job, e) : err_set(e, ERR_PROTOCOL, "answer: /jobs/0/id: missing");
    }
    json_decref(o);
    return rc;
}

int reply_artifacts(struct artifact_list *out, const char *text, size_t len, struct err *e)
{
    json_t *o;
    json_t *item;
    size_t i;

    if (parse_object(&o, text, len, e) < 0)
        return e->code;
    *out = (struct artifact_list){0};
    json_array_foreach(json_object_get(o, "artifacts"), i, item)
    {
        struct artifact_view *a = &out->items[out->n];

        if (out->n == ARTIFACTS_MAX)
            break;
        *a = (struct artifact_view){.complete = json_is_true(json_object_get(item, "complete"))};
        get_text(a->name, sizeof a->name, item, "name");
        get_text(a->sha256, sizeof a->sha256, item, "sha256");
        a->bytes = (uint64_t)get_count(item, "bytes", 0);
        if (!is_sha256_hex(a->sha256))
            a->sha256[0] = '\0';
        out->n += a->name[0] != '\0';
    }
    json_decref(o);
    return 0;
}

int reply_drain(struct drain_view *out, const char *text, size_t len, struct err *e)
{
    json_t *o;

    if (parse_object(&o, text, len, e) < 0)
        return e->code;
    *out = (struct drain_view){.is_draining = json_is_true(json_object_get(o, "draining")),
                               .n_running = get_count(o, "running", 0),
                               .n_queued = get_count(o, "queued", 0)};
    json_decref(o);
    return 0;
}

int reply_holder(char *out, size_t size, const char *text, size_t len, struct err *e)
{
    json_t *o;
    json_t *job;
    size_t i;

    out[0] = '\0';
    if (parse_object(&o, text, len, e) < 0)
        return e->code;
    json_array_foreach(json_object_get(o, "jobs"), i, job)
    {
        double ratio = get_number(json_object_get(job, "progress"), "ratio", 0);
        char id[64], submitter[128];
        enum job_state state;

        if (!get_state(&state, job) || state == JOB_PENDING || job_state_is_terminal(state))
            continue;
        get_text(id, sizeof id, job, "id");
        get_text(submitter, sizeof submitter, job, "submitter");
        if (!submitter[0]) /* an agent without tokens */
            get_text(submitter, sizeof submitter, job, "submitter_unverified");
        snprintf(out, size, "%s of %s (%s, %.0f %%)", id, submitter[0] ? submitter : "unknown user",
                 job_state_name(state), 100 * fmin(fmax(ratio, 0), 1));
        break;
    }
    json_decref(o);
    return 0;
}

static enum job_event_kind kind_of(const char *name)
{
    static const char *const names[] = {
        [EVENT_STATE] = "state",     [EVENT_PROGRESS] = "progress", [EVENT_EVAL] = "eval",
        [EVENT_STOPPED] = "stopped", [EVENT_RESULT] = "result",     [EVENT_LOG] = "log",
        [EVENT_END] = "end",
    };

    for (int k = EVENT_STATE; name && k <= EVENT_END; k++)
        if (strcmp(names[k], name) == 0)
            return (enum job_event_kind)k;
    return EVENT_OTHER;
}

int reply_event(struct job_event *out, struct progress_view *progress, const char *line, size_t len,
                struct err *e)
{
    json_t *o;

    if (parse_object(&o, line, len, e) < 0)
        return e->code;
    *out = (struct job_event){.kind = kind_of(json_string_value(json_object_get(o, "event"))),
                              .seq = (uint64_t)get_count(o, "seq", 0)};
    if ((out->kind == EVENT_STATE || out->kind == EVENT_END) && !get_state(&out->state, o)) {
        json_decref(o);
        return err_set(e, ERR_PROTOCOL, "event: /state: missing or not a job's state");
    }
    if (out->kind == EVENT_END && !job_state_is_terminal(out->state)) {
        json_decref(o);
        return err_set(e, ERR_PROTOCOL, "event: an end event with state %s", job_state_name(out->state));
    }
    get_text(out->reason, sizeof out->reason, o, out->kind == EVENT_LOG ? "level" : "reason");
    get_text(out->message, sizeof out->message, o, out->kind == EVENT_LOG ? "text" : "message");
    get_data_key(out->data_key, o);
    if (out->kind == EVENT_PROGRESS) {
        update_progress(progress, o);
        take_wait(progress, json_object_get(o, "waits_for"));
    }
    if (out->kind == EVENT_RESULT)
        take_result(progress, o);
    if (out->kind == EVENT_STOPPED)
        stop_parse(&progress->stopped, o);
    if (out->kind == EVENT_EVAL) {
        progress->eval_loss = get_number(o, "loss", progress->eval_loss);
        progress->eval_accuracy = get_number(o, "accuracy", progress->eval_accuracy);
    }
    json_decref(o);
    return 0;
}

int reply_lacks(bool *is_listed, const char *const *hex, size_t n, const char *text, size_t len,
                struct err *e)
{
    const json_t *list, *one;
    size_t at, i;
    json_t *o;
    int rc = 0;

    memset(is_listed, 0, n * sizeof *is_listed);
    if (parse_object(&o, text, len, e) < 0)
        return e->code;
    list = json_object_get(o, "lacks");
    if (!json_is_array(list))
        rc = err_set(e, ERR_PROTOCOL, "answer: /lacks: missing or not an array");
    json_array_foreach(list, at, one)
    {
        const char *text_of_one = json_string_value(one);

        for (i = 0; text_of_one && i < n && strcmp(hex[i], text_of_one) != 0;)
            i++;
        if (!text_of_one || i == n) {
            rc = err_set(e, ERR_PROTOCOL, "answer: /lacks/%zu: not the SHA-256 of a file that was named", at);
            break;
        }
        is_listed[i] = true;
    }
    json_decref(o);
    return rc;
}

static int code_of_status(int status)
{
    static const struct {
        int status, code;
    } table[] = {
        {400, ERR_PROTOCOL}, {401, ERR_AUTH},      {403, ERR_AUTH},    {404, ERR_NOT_FOUND},
        {409, ERR_CONFLICT}, {410, ERR_NOT_FOUND}, {413, ERR_REFUSED}, {422, ERR_CONFIG},
        {429, ERR_BUSY},     {503, ERR_BUSY},      {507, ERR_BUSY},
    };

    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (table[i].status == status)
            return table[i].code;
    return ERR_PROTOCOL;
}

int reply_problem(struct err *out, int status, const char *text, size_t len)
{
    int code = code_of_status(status);
    char detail[768], hint[256], name[40];
    struct err ignored;
    json_t *o;

    if (status >= 300 && status < 400)
        return err_set(out, ERR_PROTOCOL, "answered with a redirection (%d), which agents never send",
                       status);
    if (len == 0) /* for example to HEAD */
        return err_set(out, code, "answered with status %d", status);
    if (parse_object(&o, text, len, &ignored) < 0) {
        err_set(out, ERR_PROTOCOL, "answered with status %d and no JSON", status);
        return err_hint(out, "%s", no_agent);
    }
    get_text(detail, sizeof detail, o, "detail");
    detail[strlen(detail) - (detail[0] && detail[strlen(detail) - 1] == '.')] = '\0';
    get_text(hint, sizeof hint, o, "hint");
    get_text(name, sizeof name, o, "code");
    json_decref(o);
    if (strcmp(name, "AGENT_BUSY") == 0)
        code = ERR_BUSY;
    else if (strcmp(name, "CODEC_REFUSED") == 0 || strcmp(name, "ISOLATION_TOO_LOW") == 0 ||
             strcmp(name, "TRAINER_REFUSED") == 0)
        code = ERR_REFUSED;
    err_set(out, code, "%s (status %d%s%s)", detail[0] ? detail : "refused", status, name[0] ? ", " : "",
            name);
    return hint[0] ? err_hint(out, "%s", hint) : code;
}
