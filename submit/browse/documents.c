#include "submit/browse/documents.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shared/base/json.h"
#include "shared/base/utf8.h"
#include "shared/job/job_state.h"
#include "submit/files/run_file.h"
#include "submit/files/untrusted_folder.h"
#include "submit/results/language.h"

enum { NODES_SHOWN = 4096, SOURCE_MAX = 256 << 10 };

int shown_open(struct shown *s, const char *path, struct err *e)
{
    *s = (struct shown){.dir = -1, .path = strdup(path)};
    if (!s->path)
        return err_set(e, ERR_NOMEM, "no memory for %s", path);
    if (untrusted_open(&s->dir, path, e) < 0)
        return e->code;
    if (untrusted_json(&s->run, s->dir, "run.json", RUN_JSON_MAX, e) < 0)
        return err_at(e, "%s", path);
    return json_is_object(s->run) ? 0 : err_set(e, ERR_CONFIG, "%s/run.json is no object", path);
}

void shown_clear(struct shown *s)
{
    json_decref(s->run);
    free(s->path);
    if (s->dir >= 0)
        close(s->dir);
    *s = (struct shown){.dir = -1};
}

void shown_node_folder(char out[SHOWN_FOLDER], int node, int attempt)
{
    snprintf(out, SHOWN_FOLDER, "%d/%d", attempt, node);
}

void shown_live_folder(char out[SHOWN_FOLDER], const json_t *node)
{
    shown_node_folder(out, (int)json_number_at(node, "node", 0), (int)json_number_at(node, "attempt", 1));
}

static int take_file(const struct shown *s, const char *path, int node,
                     int (*take)(void *ctx, int fd, int node, struct err *e), void *ctx, struct err *e)
{
    uint64_t bytes;
    int fd;
    int rc;

    if (untrusted_file(&fd, &bytes, s->dir, path, e) < 0)
        return e->code == ERR_NOT_FOUND ? 0 : e->code;
    rc = take(ctx, fd, node, e);
    close(fd);
    return rc;
}

int shown_each(const struct shown *s, const char *path,
               int (*take)(void *ctx, int fd, int node, struct err *e), void *ctx, struct err *e)
{
    const json_t *nodes = json_object_get(s->run, "nodes"), *o;
    char folder[SHOWN_FOLDER];
    char name[128];
    size_t i;

    if (s->dir < 0)
        return 0;
    if (!s->is_live)
        return take_file(s, path, SHOWN_ALL, take, ctx, e);
    json_array_foreach(nodes, i, o)
    {
        shown_live_folder(folder, o);
        snprintf(name, sizeof name, "%s/%s", folder, path);
        if (take_file(s, name, (int)json_number_at(o, "node", 0), take, ctx, e) < 0)
            return e->code;
    }
    return 0;
}

const char *shown_text(const json_t *o, const char *key)
{
    return json_string_value(json_object_get(o, key));
}

/* The value if it has that type, else null. */
static json_t *copy_value(const json_t *o, const char *key, json_type type)
{
    json_t *v = json_object_get(o, key);

    return v && json_typeof(v) == type ? json_incref(v) : json_null();
}

static json_t *copy_number(const json_t *o, const char *key)
{
    return json_number_or_null(json_number_at(o, key, NAN));
}

/* Loss and accuracy on the test set, or before the first evaluation of the last training step; "of":
 * which. */
static json_t *metrics_json(const json_t *mean)
{
    bool is_tested = json_is_number(json_object_get(mean, "eval_loss")) ||
                     json_is_number(json_object_get(mean, "eval_accuracy"));
    bool is_trained = json_is_number(json_object_get(mean, "loss"));

    return json_pack("{s:o, s:o, s:s?}", "loss", copy_number(mean, is_tested ? "eval_loss" : "loss"),
                     "accuracy", copy_number(mean, is_tested ? "eval_accuracy" : "accuracy"), "of",
                     is_tested    ? "test"
                     : is_trained ? "training"
                                  : NULL);
}

/* Of a model of language. */
static void put_text(json_t *line, const json_t *run)
{
    struct language_results r;

    language_measure(&r, run);
    if (!isnan(r.tokens))
        json_object_set_new(line, "text",
                            json_pack("{s:o, s:o, s:o, s:o}", "perplexity", json_real_or_null(r.perplexity),
                                      "bits_per_byte", json_real_or_null(r.bits_per_byte), "tokens",
                                      json_number_or_null(r.tokens), "tokens_per_s",
                                      json_real_or_null(r.tokens_per_s)));
}

static bool is_worker(const json_t *node)
{
    return json_number_at(node, "node", -1) >= 0;
}

/* The largest number of a worker. */
static double largest(const json_t *run, const char *key)
{
    double v = NAN;
    json_t *node;
    size_t i;

    json_array_foreach(json_object_get(run, "nodes"), i, node) if (is_worker(node))
        v = fmax(v, json_number_at(node, key, NAN));
    return v;
}

static double all_steps(const json_t *run)
{
    const json_t *set = json_object_get(run, "settings");
    const json_t *data = json_object_get(json_object_get(run, "facts"), "data");
    double per_epoch = json_number_at(set, "steps_per_epoch", 0);
    double limit = json_number_at(set, "max_steps", 0);
    double steps;

    if (!(per_epoch > 0))
        per_epoch = json_number_at(data, "steps_per_epoch", NAN);
    steps = per_epoch * json_number_at(set, "epochs", NAN);
    return limit > 0 && !(limit > steps) ? limit : steps;
}

/* The progress that agents report of a running job; else computed from the steps of its workers. */
static json_t *progress_json(const json_t *run)
{
    const json_t *report = json_object_get(run, "progress");
    const json_t *set = json_object_get(run, "settings");
    double step = largest(run, "steps");
    double steps = all_steps(run);
    double epochs = json_number_at(set, "epochs", NAN);

    if (json_is_object(report))
        return json_pack("{s:o, s:o, s:o, s:o, s:o}", "epoch", copy_number(report, "epoch"), "epochs",
                         copy_number(report, "epochs"), "step", copy_number(report, "step"), "steps",
                         copy_number(report, "steps"), "ratio", copy_number(report, "ratio"));
    return json_pack("{s:o, s:o, s:o, s:o, s:o}", "epoch", json_number_or_null(ceil(step / steps * epochs)),
                     "epochs", json_number_or_null(epochs), "step", json_number_or_null(step), "steps",
                     json_number_or_null(steps), "ratio", json_real_or_null(step / steps));
}

static json_t *eta_json(const json_t *run, const json_t *how_far, double elapsed)
{
    double ratio = json_number_at(how_far, "ratio", 0);
    const char *state = shown_text(run, "state");
    bool runs = state && strcmp(state, job_state_name(JOB_RUNNING)) == 0;

    return json_real_or_null(runs && ratio > 0 ? elapsed * (1 - ratio) / ratio : NAN);
}

static json_t *texts_json(const json_t *list)
{
    json_t *out = json_array();
    json_t *v;
    size_t i;

    json_array_foreach(list, i, v) if (json_is_string(v)) json_array_append(out, v);
    return out;
}

/* The settings by which the list of jobs can be searched. */
static json_t *searched_settings(const json_t *set)
{
    static const char *const names[] = {"learn_rate",  "batch_size",       "epochs",   "max_steps",
                                        "local_steps", "momentum",         "seed",     "schedule",
                                        "sync",        "gradient_descent", "compress", "partition"};
    json_t *out = json_object();

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        json_t *v = json_object_get(set, names[i]);

        if (json_is_number(v) || json_is_string(v))
            json_object_set(out, names[i], v);
    }
    return out;
}

/* Drops what a job lacks: it is a third of a list of 10,000 jobs. */
static void drop_nulls(json_t *o)
{
    const char *key;
    void *next;
    json_t *v;

    json_object_foreach_safe(o, next, key, v)
    {
        if (json_is_object(v))
            drop_nulls(v);
        if (json_is_null(v))
            json_object_del(o, key);
    }
}

json_t *document_line(const json_t *run, const char *id, const char *folder, bool can_cancel)
{
    const json_t *set = json_object_get(run, "settings");
    const json_t *mean = json_object_get(run, "mean_over_workers");
    const json_t *comm = json_object_get(run, "comm");
    bool is_executor = json_is_true(json_object_get(set, "executor"));
    const json_t *trained = is_executor ? NULL : set; /* an executor has no data set and no model */
    double elapsed = fmax(largest(run, "elapsed_s"), json_number_at(run, "elapsed_s", NAN));
    json_t *how_far = progress_json(run);
    json_t *line = json_pack(
        "{s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "id", id, "name",
        copy_value(run, "name", JSON_STRING), "state", copy_value(run, "state", JSON_STRING), "reason",
        copy_value(run, "reason", JSON_STRING), "message", copy_value(run, "message", JSON_STRING), "codec",
        copy_value(set, "codec", JSON_STRING), "node_count", copy_number(set, "node_count"), "dataset",
        copy_value(trained, "dataset", JSON_STRING), "model", copy_value(trained, "model", JSON_STRING),
        "created_at", copy_value(run, "submitted_at", JSON_STRING), "elapsed_s", json_real_or_null(elapsed));

    if (!line || !how_far) {
        json_decref(line);
        json_decref(how_far);
        return NULL;
    }
    json_object_set_new(line, "eta_s", eta_json(run, how_far, elapsed));
    json_object_set_new(line, "progress", how_far);
    json_object_set_new(line, "metrics", metrics_json(mean));
    put_text(line, run);
    json_object_set_new(line, "comm",
                        json_pack("{s:o, s:o, s:o}", "sent_bytes", copy_number(comm, "sent_bytes"),
                                  "recv_bytes", copy_number(comm, "recv_bytes"), "raw_bytes",
                                  copy_number(comm, "raw_bytes")));
    json_object_set_new(line, "folder", folder ? json_text(folder, SIZE_MAX) : json_null());
    json_object_set_new(line, "tags", texts_json(json_object_get(json_object_get(run, "facts"), "tags")));
    json_object_set_new(line, "note", copy_value(json_object_get(run, "facts"), "note", JSON_STRING));
    json_object_set_new(line, "hidden", copy_value(json_object_get(run, "facts"), "hidden", JSON_TRUE));
    json_object_set_new(line, "settings", searched_settings(trained));
    json_object_set_new(line, "can_cancel", json_boolean(can_cancel));
    json_object_set_new(line, "executor", json_boolean(is_executor));
    drop_nulls(line);
    return line;
}

static json_t *nodes_json(const json_t *run)
{
    json_t *out = json_array();
    json_t *node;
    size_t i;

    json_array_foreach(json_object_get(run, "nodes"), i, node)
    {
        if (i == NODES_SHOWN)
            break;
        json_array_append_new(
            out, json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "node", copy_number(node, "node"), "role",
                           copy_value(node, "role", JSON_STRING), "address",
                           copy_value(node, "address", JSON_STRING), "state",
                           copy_value(node, "state", JSON_STRING), "step", copy_number(node, "steps"),
                           "wait_s", copy_number(json_object_get(node, "comm"), "wait_s"), "message",
                           copy_value(node, "message", JSON_STRING)));
    }
    return out;
}

static json_t *files_json(const json_t *run)
{
    json_t *out = json_array();
    json_t *file;
    size_t i;

    json_array_foreach(json_object_get(run, "files"), i, file) json_array_append_new(
        out, json_pack("{s:o, s:o, s:o}", "path", copy_value(file, "name", JSON_STRING), "bytes",
                       copy_number(file, "bytes"), "sha256", copy_value(file, "sha256", JSON_STRING)));
    return out;
}

static json_t *times_json(const json_t *comm)
{
    static const char *const keys[] = {"compute_s", "encode_s", "send_s", "wait_s", "decode_s", "apply_s"};
    json_t *out = json_object();

    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        json_object_set_new(out, keys[i], copy_number(comm, keys[i]));
    return out;
}

/* The warnings of run.json, and warnings about incomplete or old data on the page. */
static json_t *page_warnings(const struct shown *s)
{
    const json_t *run = s->run;
    const json_t *set = json_object_get(run, "settings");
    double every = json_number_at(set, "record_every", 1);
    const char *state = shown_text(run, "state");
    enum job_state is;
    json_t *out = texts_json(json_object_get(run, "warnings"));

    if (json_is_false(json_object_get(run, "models_agree")) && !json_object_get(run, "warnings"))
        json_array_append_new(out, json_string("The workers' final weights are not equal."));
    if (every > 1)
        json_array_append_new(
            out,
            json_sprintf("train.csv has only every %.0f. step: its curves over bytes lack the bytes of the "
                         "steps between. The curves of eval.csv have all bytes.",
                         every));
    if (s->stale.code < 0)
        json_array_append_new(out, json_sprintf("The page may show old data: %s.", s->stale.text));
    if (state && job_state_parse(&is, state) && job_state_is_terminal(is) &&
        json_is_false(json_object_get(run, "is_complete")))
        json_array_append_new(out, json_string("Some files are missing: the results are not complete."));
    return out;
}

/* The source of the codec, which is the first .c file in codec/. */
static json_t *source_json(const struct shown *s)
{
    json_t *out = NULL;
    struct err ignored;
    char path[300];
    char **names;
    size_t n = 0;
    int dir;

    if (s->dir < 0 || untrusted_enter(&dir, s->dir, "codec", &ignored) < 0)
        return json_null();
    untrusted_list(&names, &n, dir, 64, &ignored);
    for (size_t i = 0; i < n; i++) {
        size_t len = strlen(names[i]);
        char *text;
        size_t bytes;

        if (!out && len > 2 && strcmp(names[i] + len - 2, ".c") == 0 &&
            snprintf(path, sizeof path, "codec/%s", names[i]) < (int)sizeof path &&
            untrusted_text(&text, &bytes, s->dir, path, SOURCE_MAX, &ignored) == 0) {
            utf8_clean(text, bytes, true);
            out = json_pack("{s:o, s:o}", "name", json_text(names[i], SIZE_MAX), "text",
                            json_text(text, SIZE_MAX));
            free(text);
        }
    }
    untrusted_list_free(names, n);
    close(dir);
    return out ? out : json_null();
}

json_t *document_job(const struct shown *s, json_t *line)
{
    const json_t *comm = json_object_get(s->run, "comm");
    const json_t *data = json_object_get(json_object_get(s->run, "facts"), "data");
    json_t *o = json_object();

    if (!o || !line) {
        json_decref(o);
        json_decref(line);
        return NULL;
    }
    json_object_set_new(o, "job", line);
    json_object_set_new(o, "nodes", nodes_json(s->run));
    json_object_set_new(o, "settings", copy_value(s->run, "settings", JSON_OBJECT));
    json_object_set_new(o, "versions", copy_value(s->run, "versions", JSON_OBJECT));
    json_object_set_new(o, "classes", copy_value(data, "class_names", JSON_ARRAY));
    json_object_set_new(o, "warnings", page_warnings(s));
    json_object_set_new(o, "time", times_json(comm));
    json_object_set_new(o, "bound_by", copy_value(comm, "bound", JSON_STRING));
    json_object_set_new(o, "files", files_json(s->run));
    json_object_set_new(o, "codec_source", source_json(s));
    return o;
}
