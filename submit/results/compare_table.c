/* A comparison as a table for people. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "shared/base/json.h"
#include "submit/results/compare.h"
#include "submit/results/run.h"
#include "submit/terminal/text.h"

/* More than SETTINGS_IN_TABLE settings get a table of their own. */
enum { SETTINGS_IN_TABLE = 5, VALUE_MAX = 48 };

enum unit { UNIT_NONE, UNIT_SECONDS, UNIT_BYTES, UNIT_COUNT };

static const struct {
    const char *head;
    enum unit unit;
} columns[N_COMPARE_RESULTS] = {
    [COMPARE_ACCURACY] = {"accuracy", UNIT_NONE},
    [COMPARE_BEST_ACCURACY] = {"best", UNIT_NONE},
    [COMPARE_LOSS] = {"loss", UNIT_NONE},
    [COMPARE_BEST_LOSS] = {"lowest", UNIT_NONE},
    [COMPARE_PERPLEXITY] = {"perplexity", UNIT_NONE},
    [COMPARE_BITS_PER_BYTE] = {"bits/byte", UNIT_NONE},
    [COMPARE_TOKENS] = {"tokens", UNIT_COUNT},
    [COMPARE_TOKENS_PER_S] = {"tokens/s", UNIT_COUNT},
    [COMPARE_TIME] = {"time", UNIT_SECONDS},
    [COMPARE_BYTES] = {"bytes/worker", UNIT_BYTES},
    [COMPARE_TIME_TO_TARGET] = {"time to", UNIT_SECONDS},
    [COMPARE_BYTES_TO_TARGET] = {"bytes to", UNIT_BYTES},
    [COMPARE_STEPS_TO_TARGET] = {"steps to", UNIT_COUNT},
};

const char *compare_result_text(char out[TEXT_AMOUNT], enum compare_result which, double v)
{
    if (!isfinite(v))
        snprintf(out, TEXT_AMOUNT, "-");
    else if (columns[which].unit == UNIT_SECONDS)
        text_seconds(out, v);
    else if (columns[which].unit == UNIT_BYTES)
        text_bytes(out, v < 0 ? 0 : v < 0x1p63 ? (uint64_t)v : UINT64_MAX);
    else if (columns[which].unit == UNIT_COUNT)
        snprintf(out, TEXT_AMOUNT, "%.0f", v);
    else
        text_result(out, v);
    return out;
}

const char *compare_result_head(char out[TEXT_AMOUNT], enum compare_result which, double target)
{
    if (compare_is_to_target(which))
        snprintf(out, TEXT_AMOUNT, "%s %.6g", columns[which].head, target);
    else
        snprintf(out, TEXT_AMOUNT, "%s", columns[which].head);
    return out;
}

const char *compare_setting_text(char *out, size_t size, const json_t *v)
{
    if (json_is_string(v))
        snprintf(out, size, "%s", json_string_value(v)[0] ? json_string_value(v) : "-");
    else if (json_is_number(v))
        snprintf(out, size, "%.6g", json_number_value(v));
    else
        snprintf(out, size, "%s", json_is_true(v) ? "yes" : json_is_false(v) ? "no" : "-");
    return out;
}

static bool are_numbers(const json_t *values)
{
    const json_t *v;
    size_t i;

    json_array_foreach(values, i, v) if (!json_is_number(v) && !json_is_null(v)) return false;
    return true;
}

/* Of a SHA-256 the first 12 digits are shown. */
static void put_setting(struct text_table *t, const json_t *setting, size_t run)
{
    bool is_hash = strstr(json_text_at(setting, "name"), "_sha256");
    char text[VALUE_MAX + 1];

    compare_setting_text(text, sizeof text, json_array_get(json_object_get(setting, "values"), run));
    text_table_cell(t, "%.*s", is_hash ? 12 : VALUE_MAX, text);
}

/* A table with a line for each setting and a column for each run. */
static int print_settings(const json_t *doc, struct err *e)
{
    const json_t *settings = json_object_get(doc, "settings"), *setting;
    size_t n = json_array_size(json_object_get(doc, "runs"));
    struct text_table t = {0};
    size_t i;
    int rc;

    for (size_t first = 0; first < n; first += SETTINGS_IN_TABLE) {
        size_t end = first + SETTINGS_IN_TABLE < n ? first + SETTINGS_IN_TABLE : n;

        text_table_column(&t, false, "setting");
        for (size_t run = first; run < end; run++)
            text_table_column(&t, false, "%s",
                              json_text_at(json_array_get(json_object_get(doc, "runs"), run), "id"));
        json_array_foreach(settings, i, setting)
        {
            text_table_cell(&t, "%s", json_text_at(setting, "name"));
            for (size_t run = first; run < end; run++)
                put_setting(&t, setting, run);
        }
        printf("\n");
        rc = text_table_print(&t, e);
        text_table_clear(&t);
        if (rc < 0)
            return rc;
    }
    return 0;
}

/* The name of a metric of the program or the model; NULL: another result. */
static const char *metric_of(const json_t *row)
{
    const char *name = json_text_at(row, "name");
    size_t n = strlen(COMPARE_METRIC);

    return strncmp(name, COMPARE_METRIC, n) == 0 ? name + n : NULL;
}

static enum compare_result result_of(const json_t *row)
{
    int k = 0;

    while (k < N_COMPARE_RESULTS - 1 && strcmp(compare_result_names[k], json_text_at(row, "name")) != 0)
        k++;
    return (enum compare_result)k;
}

static bool has_labels(const json_t *doc)
{
    char text[RUN_LABELS_MAX];
    const json_t *run;
    size_t i;

    json_array_foreach(json_object_get(doc, "runs"), i,
                       run) if (run_labels(text, sizeof text, run)[0]) return true;
    return false;
}

static void put_heads(struct text_table *t, const json_t *doc, bool has_settings)
{
    double target = json_number_value(json_object_get(doc, "target"));
    const json_t *row;
    char head[TEXT_AMOUNT];
    size_t i;

    text_table_column(t, false, "run");
    text_table_column(t, false, "name");
    text_table_column(t, false, "state");
    json_array_foreach(json_object_get(doc, "settings"), i, row) if (has_settings)
        text_table_column(t, are_numbers(json_object_get(row, "values")), "%s", json_text_at(row, "name"));
    json_array_foreach(json_object_get(doc, "results"), i, row) text_table_column(
        t, true, "%s", metric_of(row) ? metric_of(row) : compare_result_head(head, result_of(row), target));
    if (has_labels(doc))
        text_table_column(t, false, "note");
}

static void put_run(struct text_table *t, const json_t *doc, size_t run, bool has_settings)
{
    const json_t *of = json_array_get(json_object_get(doc, "runs"), run), *row;
    char text[TEXT_AMOUNT], labels[RUN_LABELS_MAX];
    size_t i;

    text_table_cell(t, "%s", json_text_at(of, "id"));
    text_table_cell(t, "%s", json_text_at(of, "name"));
    text_table_cell(t, "%s%s", json_text_at(of, "state"),
                    json_is_true(json_object_get(of, "diverged")) ? ", diverged" : "");
    json_array_foreach(json_object_get(doc, "settings"), i, row) if (has_settings) put_setting(t, row, run);
    json_array_foreach(json_object_get(doc, "results"), i, row)
    {
        const json_t *v = json_array_get(json_object_get(row, "values"), run);
        double x = json_is_number(v) ? json_number_value(v) : NAN;

        if (metric_of(row) && isfinite(x))
            text_result(text, x);
        else
            compare_result_text(text, result_of(row), x);
        text_table_cell(t, "%s", text);
    }
    if (has_labels(doc))
        text_table_cell(t, "%s", run_labels(labels, sizeof labels, of));
}

int compare_print(const json_t *doc, struct err *e)
{
    size_t n = json_array_size(json_object_get(doc, "runs"));
    bool has_settings = json_array_size(json_object_get(doc, "settings")) <= SETTINGS_IN_TABLE;
    struct text_table t = {0};
    int rc;

    put_heads(&t, doc, has_settings);
    for (size_t run = 0; run < n; run++)
        put_run(&t, doc, run, has_settings);
    rc = text_table_print(&t, e);
    text_table_clear(&t);
    return rc == 0 && !has_settings ? print_settings(doc, e) : rc;
}
