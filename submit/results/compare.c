#include "submit/results/compare.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/json.h"
#include "submit/results/language.h"

enum { LABEL_SETTINGS = 3, LABEL_MAX = 120 }; /* a label of a run: settings that differ in it, bytes */

#define COMPARE_NAME(ID, name, ...) name,
const char *const compare_result_names[N_COMPARE_RESULTS] = {COMPARE_RESULTS(COMPARE_NAME)};
#undef COMPARE_NAME

static void take_language(struct compare_numbers *out, const json_t *doc)
{
    struct language_results text;

    language_measure(&text, doc);
    out->result[COMPARE_PERPLEXITY] = text.perplexity;
    out->result[COMPARE_BITS_PER_BYTE] = text.bits_per_byte;
    out->result[COMPARE_TOKENS] = text.tokens;
    out->result[COMPARE_TOKENS_PER_S] = text.tokens_per_s;
}

/* The totals of run.json, which the table at the end of the job shows too. */
static void take_totals(struct compare_numbers *out, const json_t *doc)
{
    const json_t *mean = json_object_get(doc, "mean_over_workers");
    const json_t *nodes = json_object_get(doc, "nodes"), *node;
    double bytes = 0, n = 0;
    size_t i;

    out->result[COMPARE_ACCURACY] = json_number_at(mean, "eval_accuracy", NAN);
    out->result[COMPARE_LOSS] = json_number_at(mean, "eval_loss", NAN);
    json_array_foreach(nodes, i, node)
    {
        double elapsed = json_number_at(node, "elapsed_s", NAN);
        double of_node = json_number_at(node, "sent_bytes", NAN) + json_number_at(node, "recv_bytes", NAN);

        if (elapsed > 0)
            out->result[COMPARE_TIME] = fmax(out->result[COMPARE_TIME], elapsed);
        if (json_number_at(node, "node", NAN) >= 0 && isfinite(of_node)) {
            bytes += of_node;
            n++;
        }
    }
    if (n > 0)
        out->result[COMPARE_BYTES] = bytes / n;
    take_language(out, doc);
}

struct best {
    double target, highest, lowest;
    double reached_at; /* the first x with an accuracy of `target`; NAN: none */
    double last_loss;
};

static void note_accuracy(void *ctx, double x, double y)
{
    struct best *b = ctx;

    b->highest = fmax(b->highest, y); /* fmax of NAN and a number is the number */
    if (isnan(b->reached_at) && y >= b->target)
        b->reached_at = x;
}

static void note_loss(void *ctx, double x, double y)
{
    struct best *b = ctx;

    (void)x;
    b->lowest = fmin(b->lowest, y);
}

/* The last value of a curve; NAN: it is not finite, or the curve is empty. */
static double last_of(const json_t *curve)
{
    size_t n = json_array_size(curve);

    return n > 0 && json_is_number(json_array_get(curve, n - 1))
               ? json_number_value(json_array_get(curve, n - 1))
               : NAN;
}

static void note_first(void *ctx, double x, double y)
{
    double *first = ctx;

    (void)x;
    if (isnan(*first))
        *first = y;
}

/* Reads the curves of the mean over the workers. *doc NULL: the run has no such records. */
static int read_curves(json_t **doc, const struct run *r, const struct series_query *q, struct err *e)
{
    struct series_request request;

    *doc = NULL;
    if (series_request_set(&request, q, e) < 0)
        return e->code;
    request.points = SERIES_POINTS;
    request.nodes_most = 0;
    return run_series(doc, r->folder, &request, e) == 0 || e->code == ERR_NOT_FOUND ? 0 : e->code;
}

/* Did the run go on from a checkpoint? */
static bool is_resumed(const struct run *r)
{
    const json_t *options = json_object_get(json_object_get(r->doc, "facts"), "options");

    return json_text_at(options, "resume")[0] != '\0';
}

/* *first: the training loss of the first batches, the mean over the workers, which is that of the initial
 * weights; NAN: the run has no such record, or went on from a checkpoint, whose loss may be lower than any
 * later one on the test set. */
static int read_first_loss(double *first, const struct run *r, struct err *e)
{
    const struct series_query q = {.file = "train", .names = "loss", .x = "step"};
    json_t *doc;

    *first = NAN;
    if (is_resumed(r))
        return 0;
    if (read_curves(&doc, r, &q, e) < 0)
        return e->code;
    run_series_each(json_object_get(doc, "mean"), "loss", note_first, first);
    json_decref(doc);
    return 0;
}

/* Reads the mean curves over x: "time", the seconds of training, "bytes" or "step". *has_curve: the run has
 * evaluations. */
static int read_mean_curve(struct best *b, bool *has_curve, const struct run *r, const char *x, struct err *e)
{
    const struct series_query q = {.file = "eval", .x = x};
    const json_t *mean;
    json_t *doc;

    *has_curve = false;
    if (read_curves(&doc, r, &q, e) < 0)
        return e->code;
    if (!doc)
        return 0;
    mean = json_object_get(doc, "mean");
    run_series_each(mean, "accuracy", note_accuracy, b);
    run_series_each(mean, "loss", note_loss, b);
    b->last_loss = last_of(json_object_get(mean, "loss"));
    *has_curve = json_array_size(json_object_get(mean, "x")) > 0;
    json_decref(doc);
    return 0;
}

int compare_measure(struct compare_numbers *out, const struct run *r, double target, struct err *e)
{
    struct best by_time = {target, NAN, NAN, NAN, NAN}, by_bytes = by_time, by_step = by_time;
    double first_loss;
    bool has_curve, has_steps;

    *out = (struct compare_numbers){.has_diverged = false};
    for (int i = 0; i < N_COMPARE_RESULTS; i++)
        out->result[i] = NAN;
    take_totals(out, r->doc);
    if (read_mean_curve(&by_time, &has_curve, r, "time", e) < 0 || read_first_loss(&first_loss, r, e) < 0 ||
        (has_curve && !isnan(by_time.reached_at) &&
         (read_mean_curve(&by_bytes, &has_curve, r, "bytes", e) < 0 ||
          read_mean_curve(&by_step, &has_steps, r, "step", e) < 0)))
        return e->code;
    out->result[COMPARE_BEST_ACCURACY] = by_time.highest;
    out->result[COMPARE_BEST_LOSS] = by_time.lowest;
    out->result[COMPARE_TIME_TO_TARGET] = by_time.reached_at;
    out->result[COMPARE_BYTES_TO_TARGET] = by_bytes.reached_at;
    out->result[COMPARE_STEPS_TO_TARGET] = by_step.reached_at;
    out->first_loss = first_loss;
    out->last_loss = by_time.last_loss;
    out->has_diverged = has_curve && (!isfinite(by_time.last_loss) || by_time.last_loss > first_loss);
    return 0;
}

void compare_prepend(struct compare_numbers *run, const struct compare_numbers *earlier)
{
    double *all = run->result;
    const double *before = earlier->result;
    bool had_reached = !isnan(before[COMPARE_STEPS_TO_TARGET]);

    if (had_reached)
        all[COMPARE_STEPS_TO_TARGET] = before[COMPARE_STEPS_TO_TARGET];
    all[COMPARE_TIME_TO_TARGET] = had_reached ? before[COMPARE_TIME_TO_TARGET]
                                              : before[COMPARE_TIME] + all[COMPARE_TIME_TO_TARGET];
    all[COMPARE_BYTES_TO_TARGET] = had_reached ? before[COMPARE_BYTES_TO_TARGET]
                                               : before[COMPARE_BYTES] + all[COMPARE_BYTES_TO_TARGET];
    all[COMPARE_TIME] += before[COMPARE_TIME];
    all[COMPARE_BYTES] += before[COMPARE_BYTES];
    all[COMPARE_BEST_ACCURACY] = fmax(all[COMPARE_BEST_ACCURACY], before[COMPARE_BEST_ACCURACY]);
    all[COMPARE_BEST_LOSS] = fmin(all[COMPARE_BEST_LOSS], before[COMPARE_BEST_LOSS]);
    run->first_loss = earlier->first_loss;
    if (isfinite(run->last_loss))
        run->has_diverged = run->last_loss > run->first_loss;
}

bool compare_is_to_target(enum compare_result which)
{
    return which == COMPARE_TIME_TO_TARGET || which == COMPARE_BYTES_TO_TARGET ||
           which == COMPARE_STEPS_TO_TARGET;
}

double compare_common_target(const struct compare_numbers *runs, size_t n)
{
    double least = NAN;

    for (size_t i = 0; i < n; i++)
        if (!runs[i].has_diverged)
            least = fmin(least, runs[i].result[COMPARE_BEST_ACCURACY]);
    return isnan(least) ? NAN : fmin(least, floor(least * 1e4 + 1e-6) / 1e4);
}

/* Settings without influence on the results, or derived from other settings. */
static const char *const left_out[] = {
    "version", "name", "steps_per_epoch", "shares_evaluations", "divides_test", "data_fingerprint"};

/* Files and data that a setting names: the key of their SHA-256 in a part of run.json's facts, and the
 * setting. The SHA-256 is shown only if it differs between runs with the same value of the setting. */
static const struct {
    const char *name, *part, *key, *of;
} contents[] = {
    {"codec_sha256", "codec", "sha256", "codec"},
    {"server_codec_sha256", "server_codec", "sha256", "server_codec"},
    {"model_sha256", "model", "sha256", "model"},
    {"trainer_sha256", "trainer", "sha256", "trainer"},
    {"test_sha256", "data", "test_sha256", "dataset"},
};
enum { N_CONTENTS = sizeof contents / sizeof *contents };

/* The setting whose file or data has the SHA-256 `name`; NULL: `name` is a setting. */
static const char *content_of(const char *name)
{
    for (int i = 0; i < N_CONTENTS; i++)
        if (strcmp(contents[i].name, name) == 0)
            return contents[i].of;
    return NULL;
}

/* The SHA-256 of a codec's source where it is known, because another compiler makes another object of it. */
static void put_contents(json_t *out, const json_t *facts)
{
    for (int i = 0; i < N_CONTENTS; i++) {
        const json_t *part = json_object_get(facts, contents[i].part);
        json_t *of_source = json_object_get(part, "source_sha256");
        json_t *v = of_source ? of_source : json_object_get(part, contents[i].key);

        if (v)
            json_object_set(out, contents[i].name, v);
    }
}

/* Joins a codec and its options to one setting, as on the command line. */
static void join_options(json_t *out, const char *codec, const char *options)
{
    const char *name = json_string_value(json_object_get(out, codec));
    const char *text = json_string_value(json_object_get(out, options));

    if (name && text && text[0])
        json_object_set_new(out, codec, json_sprintf("%s:%s", name, text));
    json_object_del(out, options);
}

/* The options of a simulation: its links and machines. */
static void put_simulation(json_t *out, const json_t *simulation)
{
    const char *key;
    json_t *v;

    json_object_set_new(out, "simulated", json_boolean(simulation));
    json_object_foreach(json_object_get(simulation, "options"), key, v) json_object_set(out, key, v);
}

/* The settings of a run as one flat object. */
static json_t *settings_of(const struct run *r)
{
    const json_t *facts = json_object_get(r->doc, "facts");
    json_t *settings = json_object_get(r->doc, "settings");
    json_t *out = json_is_object(settings) ? json_copy(settings) : json_object();

    if (!out)
        return NULL;
    put_simulation(out, json_object_get(facts, "simulation"));
    put_contents(out, facts);
    json_object_set(out, "psgd", json_object_get(json_object_get(r->doc, "versions"), "psgd"));
    join_options(out, "codec", "codec_options");
    join_options(out, "server_codec", "server_codec_options");
    if (json_equal(json_object_get(out, "server_codec"), json_object_get(out, "codec")))
        json_object_del(out, "server_codec");
    for (size_t i = 0; i < sizeof left_out / sizeof *left_out; i++)
        json_object_del(out, left_out[i]);
    return out;
}

static bool is_equal_setting(const json_t *a, const json_t *b)
{
    return a == b || json_equal(a, b) ||
           (json_is_number(a) && json_is_number(b) && !(json_number_value(a) < json_number_value(b)) &&
            !(json_number_value(a) > json_number_value(b)));
}

static bool setting_differs(json_t *const *settings, size_t n, const char *name)
{
    const char *of = content_of(name);

    for (size_t i = 1; i < n; i++)
        for (size_t j = 0; j < (of ? i : 1); j++)
            if (!is_equal_setting(json_object_get(settings[i], name), json_object_get(settings[j], name)) &&
                (!of || is_equal_setting(json_object_get(settings[i], of), json_object_get(settings[j], of))))
                return true;
    return false;
}

static json_t *values_json(json_t *const *settings, size_t n, const char *name)
{
    json_t *list = json_array();

    for (size_t i = 0; i < n; i++) {
        json_t *v = json_object_get(settings[i], name);

        json_array_append_new(list, v ? json_incref(v) : json_null());
    }
    return list;
}

/* [{"name","values":[one per run]}] of the settings that differ; null where a run lacks the setting. NULL: no
 * memory. */
static json_t *differences_json(json_t *const *settings, size_t n)
{
    json_t *seen = json_object(), *out = json_array();
    const char *name;
    json_t *v;

    for (size_t i = 0; i < n; i++)
        json_object_foreach(settings[i], name, v)
        {
            if (json_object_get(seen, name))
                continue;
            json_object_set_new(seen, name, json_true());
            if (setting_differs(settings, n, name))
                json_array_append_new(
                    out, json_pack("{s:s, s:o}", "name", name, "values", values_json(settings, n, name)));
        }
    json_decref(seen);
    return out;
}

/* Whether `options`, ":OPTION,OPTION", has this option. */
static bool has_option(const char *options, const char *option)
{
    size_t len = strlen(option);

    for (const char *at = options; *at; at += 1 + strcspn(at + 1, ","))
        if (strcspn(at + 1, ",") == len && strncmp(at + 1, option, len) == 0)
            return true;
    return false;
}

/* The codec's name, then those of its options ("NAME:OPTION,OPTION") that another run with the codec
 * lacks. */
static void codec_label(char out[LABEL_MAX], const json_t *values, size_t run)
{
    const char *text = json_string_value(json_array_get(values, run));
    size_t name = text ? strcspn(text, ":") : 0, n;
    char option[LABEL_MAX];

    n = (size_t)snprintf(out, LABEL_MAX, "%.*s", (int)name, text ? text : "-");
    for (const char *at = text ? text + name : ""; *at && n < LABEL_MAX; at += 1 + strcspn(at + 1, ",")) {
        bool is_own = false;
        const json_t *v;
        size_t i;

        snprintf(option, sizeof option, "%.*s", (int)strcspn(at + 1, ","), at + 1);
        json_array_foreach(values, i, v)
        {
            const char *other = json_string_value(v);

            is_own |= other && strcspn(other, ":") == name && strncmp(other, text, name) == 0 &&
                      !has_option(other + name, option);
        }
        if (is_own)
            n += (size_t)snprintf(out + n, LABEL_MAX - n, "%c%s", strchr(out, ':') ? ',' : ':', option);
    }
}

/* A setting in a label: "fedavg:k=1", "learn_rate=0.1". */
static void setting_label(char out[LABEL_MAX], const json_t *difference, size_t run)
{
    const json_t *values = json_object_get(difference, "values");
    const char *name = json_text_at(difference, "name");
    char value[LABEL_MAX];

    if (strcmp(name, "codec") == 0) {
        codec_label(out, values, run);
        return;
    }
    compare_setting_text(value, sizeof value, json_array_get(values, run));
    snprintf(out, LABEL_MAX, "%.40s=%.70s", name, value);
}

static size_t count_different(char (*labels)[LABEL_MAX], size_t n)
{
    size_t found = 0;

    for (size_t i = 0; i < n; i++) {
        bool is_new = true;

        for (size_t j = 0; j < i && is_new; j++)
            is_new = strcmp(labels[i], labels[j]) != 0;
        found += is_new;
    }
    return found;
}

/* Adds a setting to all labels if more labels are then different. */
static bool add_setting(char (*labels)[LABEL_MAX], char (*longer)[LABEL_MAX], const json_t *difference,
                        size_t n)
{
    char text[LABEL_MAX];

    for (size_t i = 0; i < n; i++) {
        setting_label(text, difference, i);
        snprintf(longer[i], LABEL_MAX, "%.59s%s%.59s", labels[i], labels[i][0] ? " " : "", text);
    }
    if (count_different(longer, n) <= count_different(labels, n))
        return false;
    memcpy(labels, longer, n * sizeof *labels);
    return true;
}

/* The codec comes first; the seed comes last, because repeated runs differ in it. */
static int rank_of(const json_t *difference)
{
    const char *name = json_text_at(difference, "name");

    return strcmp(name, "codec") == 0 ? 0 : strcmp(name, "seed") == 0 ? 2 : 1;
}

/* Labels of at most LABEL_SETTINGS settings that are different for all runs: "fedavg learn_rate=0.1". false:
 * so few settings do not suffice. */
static bool label_by_settings(char (*labels)[LABEL_MAX], const json_t *differences, size_t n)
{
    char(*longer)[LABEL_MAX] = calloc(n ? n : 1, sizeof *longer);
    const json_t *d;
    size_t i;
    int used = 0;

    for (int rank = 0; longer && rank < 3; rank++)
        json_array_foreach(differences, i, d) if (rank_of(d) == rank && used <= LABEL_SETTINGS &&
                                                  count_different(labels, n) < n)
            used += add_setting(labels, longer, d, n);
    free(longer);
    return used > 0 && used <= LABEL_SETTINGS && count_different(labels, n) == n;
}

/* Short labels, different for all runs: a few settings, else the names, else the ids. */
static void choose_labels(char (*labels)[LABEL_MAX], const json_t *differences, const struct run *runs,
                          size_t n)
{
    if (label_by_settings(labels, differences, n))
        return;
    for (size_t i = 0; i < n; i++)
        snprintf(labels[i], LABEL_MAX, "%s", json_text_at(runs[i].doc, "name"));
    if (count_different(labels, n) == n)
        return;
    for (size_t i = 0; i < n; i++)
        snprintf(labels[i], LABEL_MAX, "%s", json_text_at(runs[i].doc, "id"));
}

static json_t *runs_json(const json_t *differences, const struct compare_numbers *numbers,
                         const struct run *runs, size_t n)
{
    char(*labels)[LABEL_MAX] = calloc(n ? n : 1, sizeof *labels);
    json_t *list = json_array();

    if (labels)
        choose_labels(labels, differences, runs, n);
    for (size_t i = 0; labels && i < n; i++) {
        const json_t *facts = json_object_get(runs[i].doc, "facts");

        json_array_append_new(
            list, json_pack("{s:s, s:s, s:o, s:s, s:b, s:b, s:o, s:O?, s:O?}", "id",
                            json_text_at(runs[i].doc, "id"), "name", json_text_at(runs[i].doc, "name"),
                            "label", json_text(labels[i], SIZE_MAX), "state",
                            json_text_at(runs[i].doc, "state"), "diverged", numbers[i].has_diverged,
                            "resumed", is_resumed(&runs[i]), "folder", json_text(runs[i].folder, SIZE_MAX),
                            "tags", json_object_get(facts, "tags"), "note", json_object_get(facts, "note")));
    }
    free(labels);
    return list;
}

/* The results that at least one run has; time, bytes and steps to the target only if there is a target. */
static json_t *results_json(const struct compare_numbers *numbers, size_t n, double target)
{
    json_t *list = json_array();

    for (int k = 0; k < N_COMPARE_RESULTS; k++) {
        json_t *values = json_array();
        bool has_any = false;

        for (size_t i = 0; i < n; i++) {
            has_any |= !isnan(numbers[i].result[k]);
            json_array_append_new(values, json_real_or_null(numbers[i].result[k]));
        }
        if (compare_is_to_target((enum compare_result)k) ? !isnan(target) : has_any)
            json_array_append_new(list,
                                  json_pack("{s:s, s:O}", "name", compare_result_names[k], "values", values));
        json_decref(values);
    }
    return list;
}

static void objects_free(json_t **all, size_t n)
{
    for (size_t i = 0; all && i < n; i++)
        json_decref(all[i]);
    free(all);
}

int compare_last_metrics(json_t **out, const char *folder, struct err *e)
{
    const struct series_query q = {.file = "metrics", .x = "step"};
    struct series_request request;
    json_t *doc, *curve;
    const char *name;

    *out = json_object();
    if (series_request_set(&request, &q, e) < 0)
        return e->code;
    request.points = SERIES_POINTS;
    request.nodes_most = 0;
    if (run_series(&doc, folder, &request, e) < 0)
        return e->code == ERR_NOT_FOUND ? 0 : e->code;
    json_object_foreach(json_object_get(doc, "mean"), name, curve)
    {
        double last = NAN;

        if (strcmp(name, "x") == 0)
            continue;
        for (size_t i = 0; i < json_array_size(curve); i++)
            if (json_is_number(json_array_get(curve, i)))
                last = json_number_value(json_array_get(curve, i));
        if (isfinite(last))
            json_object_set_new(*out, name, json_real(last));
    }
    json_decref(doc);
    return 0;
}

static void add_metric(json_t *results, const char *name, json_t *const *metrics, size_t n)
{
    json_t *values = json_array();

    for (size_t i = 0; i < n; i++) {
        json_t *v = json_object_get(metrics[i], name);

        json_array_append_new(values, v ? json_incref(v) : json_null());
    }
    json_array_append_new(
        results, json_pack("{s:o, s:o}", "name", json_sprintf(COMPARE_METRIC "%s", name), "values", values));
}

/* (n) objects of compare_last_metrics(), some of which may be NULL. */
static void add_metrics(json_t *results, json_t *const *metrics, size_t n)
{
    json_t *seen = json_object();
    const char *name;
    json_t *v;

    for (size_t i = 0; i < n; i++)
        json_object_foreach(metrics[i], name, v)
        {
            if (json_object_get(seen, name) || json_object_size(seen) == COMPARE_METRICS)
                continue;
            json_object_set_new(seen, name, json_true());
            add_metric(results, name, metrics, n);
        }
    json_decref(seen);
}

/* Appends the metrics of the runs to the results. */
static int compare_metrics(json_t *results, const struct run *runs, size_t n, struct err *e)
{
    json_t **metrics = calloc(n ? n : 1, sizeof(json_t *));
    int rc = metrics ? 0 : err_set(e, ERR_NOMEM, "no memory for the comparison");

    for (size_t i = 0; i < n && rc == 0; i++)
        rc = compare_last_metrics(&metrics[i], runs[i].folder, e);
    if (rc == 0)
        add_metrics(results, metrics, n);
    objects_free(metrics, n);
    return rc;
}

static int measure_all(struct compare_numbers *numbers, const struct run *runs, size_t n, double target,
                       struct err *e)
{
    for (size_t i = 0; i < n; i++)
        if (compare_measure(&numbers[i], &runs[i], target, e) < 0)
            return e->code;
    return 0;
}

/* (n), for objects_free(). */
static json_t **settings_all(const struct run *runs, size_t n)
{
    json_t **all = calloc(n ? n : 1, sizeof(json_t *));

    for (size_t i = 0; all && i < n; i++)
        all[i] = settings_of(&runs[i]);
    return all;
}

int compare_runs(json_t **out, const struct run *runs, size_t n, double target, struct err *e)
{
    struct compare_numbers *numbers;
    json_t **settings;
    json_t *differences;
    int rc;

    if (n > COMPARE_RUNS)
        return err_set(e, ERR_USAGE, "%zu runs: at most %d are compared", n, COMPARE_RUNS);
    numbers = calloc(n ? n : 1, sizeof *numbers);
    settings = settings_all(runs, n);
    differences = settings ? differences_json(settings, n) : NULL;
    rc = numbers && differences ? measure_all(numbers, runs, n, target, e)
                                : err_set(e, ERR_NOMEM, "no memory for the comparison");
    if (rc == 0 && isnan(target)) {
        target = compare_common_target(numbers, n);
        rc = isnan(target) ? 0 : measure_all(numbers, runs, n, target, e);
    }
    if (rc == 0) {
        *out = json_pack("{s:o, s:o, s:O, s:o}", "runs", runs_json(differences, numbers, runs, n), "target",
                         json_real_or_null(target), "settings", differences, "results",
                         results_json(numbers, n, target));
        rc = *out ? compare_metrics(json_object_get(*out, "results"), runs, n, e)
                  : err_set(e, ERR_NOMEM, "no memory for the comparison");
        if (rc < 0)
            json_decref(*out);
    }
    json_decref(differences);
    objects_free(settings, n);
    free(numbers);
    return rc;
}
