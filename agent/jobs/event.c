#include "agent/jobs/event.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/clock.h"
#include "shared/base/json.h"
#include "shared/base/utf8.h"
#include "shared/job/settings.h"

#define EVENT_AT(member) JSON_AT(struct event, member)
#define SPEC_AT(member)  JSON_AT(struct job_spec, member)

static const struct json_field state_fields[] = {
    {.key = "state", .kind = JSON_FIELD_ANY, .required = true},
    {.key = "reason", .kind = JSON_FIELD_TEXT, EVENT_AT(reason)},
    {.key = "message", .kind = JSON_FIELD_TEXT, EVENT_AT(message)},
    {.key = "data_key", .kind = JSON_FIELD_TEXT, EVENT_AT(data_key)},
    {0},
};

static const struct json_field progress_fields[] = {
    {.key = "epoch", .kind = JSON_FIELD_INT, EVENT_AT(epoch), .required = true, .max = 1e9},
    {.key = "epochs", .kind = JSON_FIELD_INT, EVENT_AT(epochs), .max = 1e9},
    {.key = "step", .kind = JSON_FIELD_U64, EVENT_AT(step), .required = true},
    {.key = "steps", .kind = JSON_FIELD_U64, EVENT_AT(steps)},
    {.key = "samples", .kind = JSON_FIELD_U64, EVENT_AT(samples)},
    {.key = "loss", .kind = JSON_FIELD_DOUBLE, EVENT_AT(loss)},
    {.key = "accuracy", .kind = JSON_FIELD_DOUBLE, EVENT_AT(accuracy)},
    {.key = "sent_messages", .kind = JSON_FIELD_U64, EVENT_AT(comm.sent_messages)},
    {.key = "recv_messages", .kind = JSON_FIELD_U64, EVENT_AT(comm.recv_messages)},
    {.key = "raw_bytes", .kind = JSON_FIELD_U64, EVENT_AT(comm.raw_bytes)},
    {.key = "sent_bytes", .kind = JSON_FIELD_U64, EVENT_AT(comm.sent_bytes)},
    {.key = "recv_bytes", .kind = JSON_FIELD_U64, EVENT_AT(comm.recv_bytes)},
    {.key = "compute_s", .kind = JSON_FIELD_DOUBLE, EVENT_AT(comm.seconds[PHASE_COMPUTE]), .max = 1e12},
    {.key = "encode_s", .kind = JSON_FIELD_DOUBLE, EVENT_AT(comm.seconds[PHASE_ENCODE]), .max = 1e12},
    {.key = "send_s", .kind = JSON_FIELD_DOUBLE, EVENT_AT(comm.seconds[PHASE_SEND]), .max = 1e12},
    {.key = "wait_s", .kind = JSON_FIELD_DOUBLE, EVENT_AT(comm.seconds[PHASE_WAIT]), .max = 1e12},
    {.key = "decode_s", .kind = JSON_FIELD_DOUBLE, EVENT_AT(comm.seconds[PHASE_DECODE]), .max = 1e12},
    {.key = "apply_s", .kind = JSON_FIELD_DOUBLE, EVENT_AT(comm.seconds[PHASE_APPLY]), .max = 1e12},
    {.key = "waits_for",
     .kind = JSON_FIELD_INT,
     EVENT_AT(waits_for),
     .min = -NODES_MAX - 1,
     .max = NODES_MAX - 1},
    {0},
};

static const struct json_field eval_fields[] = {
    {.key = "epoch", .kind = JSON_FIELD_INT, EVENT_AT(epoch), .required = true, .max = 1e9},
    {.key = "step", .kind = JSON_FIELD_U64, EVENT_AT(step), .required = true},
    {.key = "loss", .kind = JSON_FIELD_DOUBLE, EVENT_AT(loss)},
    {.key = "accuracy", .kind = JSON_FIELD_DOUBLE, EVENT_AT(accuracy)},
    {0},
};

static const struct json_field stopped_fields[] = {
    {.key = "reason", .kind = JSON_FIELD_CHOICE, EVENT_AT(stop), .required = true, .choices = STOP_CHOICES},
    {.key = "step", .kind = JSON_FIELD_U64, EVENT_AT(step), .required = true},
    {.key = "loss", .kind = JSON_FIELD_DOUBLE, EVENT_AT(loss)},
    {.key = "accuracy", .kind = JSON_FIELD_DOUBLE, EVENT_AT(accuracy)},
    {0},
};

static const struct json_field result_fields[] = {
    {.key = "params_sha256", .kind = JSON_FIELD_TEXT, EVENT_AT(params_sha256), .required = true},
    {.key = "combined_nothing", .kind = JSON_FIELD_BOOL, EVENT_AT(combined_nothing)},
    {0},
};

static const struct json_field log_fields[] = {
    {.key = "level",
     .kind = JSON_FIELD_TEXT,
     EVENT_AT(level),
     .required = true,
     .choices = "info|warn|error"},
    {.key = "text", .kind = JSON_FIELD_TEXT, EVENT_AT(text), .required = true},
    {0},
};

static const struct json_field engine_fields[] = {
    {.key = "text",
     .kind = JSON_FIELD_TEXT,
     .offset = offsetof(struct event, text),
     .size = ENGINE_MAX,
     .required = true},
    {0},
};

static const struct json_field isolation_fields[] = {
    {.key = "level",
     .kind = JSON_FIELD_CHOICE,
     EVENT_AT(isolation),
     .required = true,
     .choices = ISOLATION_CHOICES},
    {.key = "text", .kind = JSON_FIELD_TEXT, EVENT_AT(text)},
    {0},
};

/* A runner's other details in this event are for its log. */
static const struct json_field ready_fields[] = {
    {.key = "data_key", .kind = JSON_FIELD_TEXT, EVENT_AT(data_key), .required = true},
    {.key = "codec_sha256", .kind = JSON_FIELD_ANY},
    {.key = "n_params", .kind = JSON_FIELD_ANY},
    {0},
};

static const struct json_field reserve_fields[] = {
    {.key = "order", .kind = JSON_FIELD_U64, EVENT_AT(order)},
    {.key = "request", .kind = JSON_FIELD_ANY, .required = true},
    {.key = "owner", .kind = JSON_FIELD_TEXT, EVENT_AT(owner)},
    {.key = "key_sha256", .kind = JSON_FIELD_TEXT, EVENT_AT(key_sha256)},
    {0},
};

static const struct json_field socket_fields[] = {
    {.key = "data_port",
     .kind = JSON_FIELD_INT,
     EVENT_AT(data_port),
     .required = true,
     .min = 1,
     .max = 65535},
    {.key = "slot", .kind = JSON_FIELD_INT, EVENT_AT(slot), .min = 0, .max = 255},
    {0},
};

/* job_apply() checks the package's name (shared/job/package.h). */
static const struct json_field package_fields[] = {
    {.key = "package", .kind = JSON_FIELD_TEXT, EVENT_AT(package), .required = true},
    {.key = "first", .kind = JSON_FIELD_TEXT, EVENT_AT(hex[0]), .required = true},
    {.key = "second", .kind = JSON_FIELD_TEXT, EVENT_AT(hex[1])},
    {.key = "third", .kind = JSON_FIELD_TEXT, EVENT_AT(hex[2])},
    {0},
};

static const struct json_field runner_fields[] = {
    {.key = "pid", .kind = JSON_FIELD_INT, EVENT_AT(pid), .required = true, .min = 2, .max = 0x1p30},
    {.key = "start_ticks", .kind = JSON_FIELD_U64, EVENT_AT(start_ticks), .required = true},
    {.key = "boot", .kind = JSON_FIELD_TEXT, EVENT_AT(boot), .required = true},
    {0},
};

static const struct json_field start_fields[] = {
    {.key = "digest", .kind = JSON_FIELD_TEXT, EVENT_AT(digest), .required = true},
    {.key = "monotonic_s", .kind = JSON_FIELD_DOUBLE, EVENT_AT(monotonic_s), .required = true},
    {0},
};

static const struct json_field skipped_fields[] = {
    {.key = "lines", .kind = JSON_FIELD_U64, EVENT_AT(n_lines), .required = true},
    {0},
};

static const struct {
    const char *name;
    const struct json_field *fields;
    bool is_note, from_runner;
} kinds[N_EVENT_KINDS] = {
    [EVENT_STATE] = {"state", state_fields, false, false},
    [EVENT_PROGRESS] = {"progress", progress_fields, false, true},
    [EVENT_EVAL] = {"eval", eval_fields, false, true},
    [EVENT_STOPPED] = {"stopped", stopped_fields, false, true},
    [EVENT_RESULT] = {"result", result_fields, false, true},
    [EVENT_LOG] = {"log", log_fields, false, true},
    [EVENT_ENGINE] = {"engine", engine_fields, false, true},
    [EVENT_ISOLATION] = {"isolation", isolation_fields, false, true},
    [EVENT_END] = {"end", state_fields, false, true},
    [EVENT_READY] = {"ready", ready_fields, false, true},
    [NOTE_RESERVE] = {"reserve", reserve_fields, true, false},
    [NOTE_SOCKET] = {"socket", socket_fields, true, false},
    [NOTE_PACKAGE] = {"package", package_fields, true, false},
    [NOTE_RUNNER] = {"runner", runner_fields, true, false},
    [NOTE_START] = {"start", start_fields, true, false},
    [NOTE_SKIPPED] = {"skipped", skipped_fields, true, false},
};

static const struct json_field spec_fields[] = {
    {.key = "id", .kind = JSON_FIELD_TEXT, SPEC_AT(id), .required = true},
    {.key = "attempt", .kind = JSON_FIELD_INT, SPEC_AT(attempt), .required = true, .min = 1, .max = 1e6},
    {.key = "node",
     .kind = JSON_FIELD_INT,
     SPEC_AT(node),
     .required = true,
     .min = -NODES_MAX - 1,
     .max = NODES_MAX - 1},
    {.key = "role", .kind = JSON_FIELD_TEXT, SPEC_AT(role), .required = true, .choices = "worker|server"},
    {.key = "name", .kind = JSON_FIELD_TEXT, SPEC_AT(name)},
    {.key = "codec", .kind = JSON_FIELD_TEXT, SPEC_AT(codec)},
    {.key = "node_count",
     .kind = JSON_FIELD_INT,
     SPEC_AT(node_count),
     .required = true,
     .min = 1,
     .max = NODES_MAX},
    {.key = "server_count", .kind = JSON_FIELD_INT, SPEC_AT(server_count), .min = 0, .max = NODES_MAX},
    {.key = "workers_on_host", .kind = JSON_FIELD_INT, SPEC_AT(workers_on_host), .min = 0, .max = NODES_MAX},
    {.key = "submitter", .kind = JSON_FIELD_TEXT, SPEC_AT(submitter)},
    {.key = "no_queue", .kind = JSON_FIELD_BOOL, SPEC_AT(no_queue)},
    {.key = "holds", .kind = JSON_FIELD_INT, SPEC_AT(holds), .min = 0, .max = 1e6},
    {.key = "executor", .kind = JSON_FIELD_BOOL, SPEC_AT(executor)},
    {.key = "weights", .kind = JSON_FIELD_BOOL, SPEC_AT(weights)},
    {.key = "codec_sha256", .kind = JSON_FIELD_TEXT, SPEC_AT(codec_sha256)},
    {.key = "codec_source_sha256", .kind = JSON_FIELD_TEXT, SPEC_AT(codec_source_sha256)},
    {.key = "trainer", .kind = JSON_FIELD_TEXT, SPEC_AT(trainer)},
    {.key = "trainer_sha256", .kind = JSON_FIELD_TEXT, SPEC_AT(trainer_sha256)},
    {.key = "require_isolation",
     .kind = JSON_FIELD_CHOICE,
     SPEC_AT(require_isolation),
     .choices = ISOLATION_CHOICES},
    {.key = "time_limit_s",
     .kind = JSON_FIELD_DOUBLE,
     SPEC_AT(time_limit_s),
     .min = 1,
     .max = TIME_LIMIT_MAX_S},
    {0},
};

bool event_is_note(const struct event *ev)
{
    return kinds[ev->kind].is_note;
}

void event_init(struct event *ev, enum event_kind kind)
{
    *ev = (struct event){
        .kind = kind, .at = clock_wall(), .loss = NAN, .accuracy = NAN, .waits_for = EVENT_NO_NODE};
}

void event_state(struct event *ev, enum event_kind kind, enum job_state s, const char *reason,
                 const char *message)
{
    event_init(ev, kind);
    ev->state = s;
    snprintf(ev->reason, sizeof ev->reason, "%s", reason ? reason : "");
    snprintf(ev->message, sizeof ev->message, "%s", message ? message : "");
}

static bool has_state(enum event_kind k)
{
    return k == EVENT_STATE || k == EVENT_END;
}

char *event_line(const struct event *ev)
{
    char at[CLOCK_TEXT];
    json_t *o = json_object();
    json_t *rest = json_from_struct(ev, kinds[ev->kind].fields);
    char *line;

    if (event_is_note(ev)) {
        json_object_set_new(o, "note", json_string(kinds[ev->kind].name));
        json_object_set_new(o, "at", json_string(clock_text(at, ev->at)));
    } else {
        json_object_set_new(o, "seq", json_integer((json_int_t)ev->seq));
        json_object_set_new(o, "at", json_string(clock_text(at, ev->at)));
        json_object_set_new(o, "event", json_string(kinds[ev->kind].name));
    }
    if (has_state(ev->kind))
        json_object_set_new(o, "state", json_string(job_state_name(ev->state)));
    json_object_update(o, rest);
    if (has_state(ev->kind) && !ev->reason[0])
        json_object_set_new(o, "reason", json_null());
    if (has_state(ev->kind) && !ev->data_key[0])
        json_object_del(o, "data_key");
    if (ev->kind == EVENT_PROGRESS && ev->waits_for == EVENT_NO_NODE)
        json_object_set_new(o, "waits_for", json_null());
    if (ev->kind == NOTE_RESERVE)
        json_object_set_new(o, "request", job_spec_json(&ev->spec));
    /* Fifteen digits: every number is printed as it was read, 0.4 and not 0.40000000000000002. */
    line = json_dump_line(o, JSON_COMPACT);
    json_decref(rest);
    json_decref(o);
    return line;
}

/* null is equivalent to a missing key. */
static void drop_nulls(json_t *o)
{
    const char *key;
    json_t *v;
    void *next;

    json_object_foreach_safe(o, next, key, v) if (json_is_null(v)) json_object_del(o, key);
}

/* Removes the kind's name and, in a journal, number and time from the object. */
static int head_parse(struct event *ev, json_t *o, bool from_runner, struct err *e)
{
    bool is_note = !from_runner && json_object_get(o, "note");
    char name[16], at[CLOCK_TEXT];
    int k = 0;

    if (json_get_text(name, sizeof name, o, is_note ? "note" : "event", "", e) < 0)
        return e->code;
    while (k < N_EVENT_KINDS && !(strcmp(kinds[k].name, name) == 0 && kinds[k].is_note == is_note))
        k++;
    if (k == N_EVENT_KINDS || (from_runner && !kinds[k].from_runner) || (!from_runner && k == EVENT_READY))
        return err_set(e, ERR_CONFIG, "/event: \"%s\" is unknown here", name);
    event_init(ev, (enum event_kind)k);
    json_object_del(o, is_note ? "note" : "event");
    if (from_runner)
        return 0;
    if (!is_note) {
        json_int_t seq = json_integer_value(json_object_get(o, "seq"));

        if (seq < 1 || seq > (json_int_t)1 << 53)
            return err_set(e, ERR_CONFIG, "/seq: not an integer from 1 to 2^53");
        ev->seq = (uint64_t)seq;
        json_object_del(o, "seq");
    }
    if (json_get_text(at, sizeof at, o, "at", "", e) < 0)
        return e->code;
    if (!clock_parse(&ev->at, at))
        return err_set(e, ERR_CONFIG, "/at: not a time");
    json_object_del(o, "at");
    return 0;
}

static bool is_hex_or_empty(const char *text)
{
    return !text[0] || is_sha256_hex(text);
}

static int body_parse(struct event *ev, const json_t *o, bool from_runner, struct err *e)
{
    char name[16];

    if (json_to_struct(ev, o, kinds[ev->kind].fields, "", e) < 0)
        return e->code;
    if (has_state(ev->kind)) {
        if (json_get_text(name, sizeof name, o, "state", "", e) < 0)
            return e->code;
        if (!job_state_parse(&ev->state, name))
            return err_set(e, ERR_CONFIG, "/state: \"%s\" is not a state", name);
        if ((ev->kind == EVENT_END) != job_state_is_terminal(ev->state))
            return err_set(e, ERR_CONFIG, "/state: \"%s\" does not fit this event", name);
        for (const char *p = ev->reason; *p; p++)
            if (!((*p >= 'A' && *p <= 'Z') || (*p >= 'a' && *p <= 'z')))
                return err_set(e, ERR_CONFIG, "/reason: not only letters");
    }
    if (ev->kind == EVENT_RESULT && !is_sha256_hex(ev->params_sha256))
        return err_set(e, ERR_CONFIG, "/params_sha256: not a SHA-256");
    if ((has_state(ev->kind) || ev->kind == EVENT_READY) &&
        !(ev->kind == EVENT_READY ? is_sha256_hex(ev->data_key) : is_hex_or_empty(ev->data_key)))
        return err_set(e, ERR_CONFIG, "/data_key: not %d hex digits", SHA256_HEX - 1);
    if (from_runner)
        return 0;
    if (ev->kind == NOTE_RESERVE && !is_hex_or_empty(ev->key_sha256))
        return err_set(e, ERR_CONFIG, "/key_sha256: not a SHA-256");
    if (ev->kind == NOTE_RESERVE)
        return job_spec_parse(&ev->spec, json_object_get(o, "request"), e);
    for (int i = 0; ev->kind == NOTE_PACKAGE && i < PACKAGE_FILES_MAX; i++)
        if (!is_hex_or_empty(ev->hex[i]))
            return err_set(e, ERR_CONFIG, "/first, /second, /third: not a SHA-256");
    return 0;
}

int event_parse_line(struct event *out, const char *line, size_t len, bool from_runner, struct err *e)
{
    json_t *o;
    int rc;

    if (json_parse(&o, line, len, "line", e) < 0)
        return e->code;
    if (json_is_object(o)) {
        drop_nulls(o);
        rc = head_parse(out, o, from_runner, e);
        if (rc == 0)
            rc = body_parse(out, o, from_runner, e);
    } else {
        rc = err_set(e, ERR_CONFIG, "/: not an object");
    }
    json_decref(o);
    return rc;
}

bool is_job_id(const char *text)
{
    size_t n = strlen(text);

    return n >= 8 && n <= JOB_ID_MAX && text[0] == 'j' && text[1] == '-' &&
           strspn(text + 2, "abcdefghijklmnopqrstuvwxyz0123456789") == n - 2;
}

int job_spec_check_node(const struct job_spec *s, const char *role, int node, const char *at, struct err *e)
{
    bool is_server = strcmp(role, "server") == 0;

    if (is_server ? node <= -2 && -2 - node < s->server_count : node >= 0 && node < s->node_count)
        return 0;
    return err_set(e, ERR_CONFIG, "%s/node: %d is not a %s of %d workers and %d servers", at, node, role,
                   s->node_count, s->server_count);
}

int job_spec_parse(struct job_spec *out, const json_t *doc, struct err *e)
{
    struct job_spec s = {.time_limit_s = 86400};

    if (json_to_struct(&s, doc, spec_fields, "", e) < 0)
        return e->code;
    if (!is_job_id(s.id))
        return err_set(e, ERR_CONFIG, "/id: \"%s\" is not j- and 6 to 40 of a-z0-9", s.id);
    /* These are shown to users later. */
    if (!utf8_is_clean(s.name) || !utf8_is_clean(s.codec) || !utf8_is_clean(s.submitter) ||
        !utf8_is_clean(s.trainer))
        return err_set(e, ERR_CONFIG, "/name: control characters in name, codec, submitter or trainer");
    if (!is_hex_or_empty(s.codec_sha256) || !is_hex_or_empty(s.codec_source_sha256))
        return err_set(e, ERR_CONFIG, "/codec_sha256: not a SHA-256 in 64 lower-case hex digits");
    if (!is_hex_or_empty(s.trainer_sha256))
        return err_set(e, ERR_CONFIG, "/trainer_sha256: not a SHA-256 in 64 lower-case hex digits");
    if (s.executor && s.trainer[0])
        return err_set(e, ERR_CONFIG, "/trainer: a job of an executor trains nothing");
    if (job_spec_check_node(&s, s.role, s.node, "", e) < 0)
        return e->code;
    *out = s;
    return 0;
}

bool job_spec_has_program(const struct job_spec *s)
{
    return s->trainer[0] && strcmp(s->role, "server") != 0;
}

json_t *job_spec_json(const struct job_spec *s)
{
    return json_from_struct(s, spec_fields);
}
