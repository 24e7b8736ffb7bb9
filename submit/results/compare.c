#include "submit/results/compare.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/json.h"

enum { LABEL_SETTINGS = 3, LABEL_MAX = 120 };

/* Whether ":OPTION,OPTION" has this one. */
static bool has_option(const char *options, const char *option)
{
    size_t len = strlen(option);

    for (const char *at = options; *at; at += 1 + strcspn(at + 1, ","))
        if (strcspn(at + 1, ",") == len && strncmp(at + 1, option, len) == 0)
            return true;
    return false;
}

/* The options of "NAME:OPTION,OPTION" that another run of the same codec has not, after the name. */
static void codec_label(char out[LABEL_MAX], const json_t *values, size_t run)
{
    const char *text = json_string_value(json_array_get(values, run));
    size_t name = text ? strcspn(text, ":") : 0, n;
    char option[LABEL_MAX];

    n = (size_t)snprintf(out, LABEL_MAX, "%.*s", (int)name, text ? text : "-");
    for (const char *at = text ? text + name : ""; *at && n < LABEL_MAX; at += 1 + strcspn(at + 1, ",")) {
        bool is_told = false;
        const json_t *v;
        size_t i;

        snprintf(option, sizeof option, "%.*s", (int)strcspn(at + 1, ","), at + 1);
        json_array_foreach(values, i, v)
        {
            const char *other = json_string_value(v);

            is_told |= other && strcspn(other, ":") == name && strncmp(other, text, name) == 0 &&
                       !has_option(other + name, option);
        }
        if (is_told)
            n += (size_t)snprintf(out + n, LABEL_MAX - n, "%c%s", strchr(out, ':') ? ',' : ':', option);
    }
}

/* "fedavg:k=1", "learn_rate=0.1": what a label says of one setting. */
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

/* Adds a setting to all labels if it tells more of the runs apart. */
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

/* The codec says most; the seed comes last, as it is that of a repeated run. */
static int rank_of(const json_t *difference)
{
    const char *name = json_text_at(difference, "name");

    return strcmp(name, "codec") == 0 ? 0 : strcmp(name, "seed") == 0 ? 2 : 1;
}

/* By the fewest settings that tell all runs apart: "fedavg learn_rate=0.1". false: there are none so few. */
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

/* A run's label is short and no other run's: by few settings, else by name, else the id. */
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

static json_t *runs_json(const json_t *differences, const struct run *runs, size_t n)
{
    char(*labels)[LABEL_MAX] = calloc(n ? n : 1, sizeof *labels);
    json_t *list = json_array();

    if (labels)
        choose_labels(labels, differences, runs, n);
    for (size_t i = 0; labels && i < n; i++) {
        const json_t *facts = json_object_get(runs[i].doc, "facts");

        json_array_append_new(
            list,
            json_pack("{s:s, s:s, s:o, s:s, s:o, s:O?, s:O?}", "id", json_text_at(runs[i].doc, "id"), "name",
                      json_text_at(runs[i].doc, "name"), "label", json_text(labels[i], SIZE_MAX), "state",
                      json_text_at(runs[i].doc, "state"), "folder", json_text(runs[i].folder, SIZE_MAX),
                      "tags", json_object_get(facts, "tags"), "note", json_object_get(facts, "note")));
    }
    free(labels);
    return list;
}

/* All of a run; those to the target only if there is one. */
static json_t *results_json(const struct compare_numbers *numbers, size_t n, double target)
{
    json_t *list = json_array();

    for (int k = 0; k < N_COMPARE_RESULTS; k++) {
        bool is_to_target = k == COMPARE_TIME_TO_TARGET || k == COMPARE_BYTES_TO_TARGET;
        json_t *values = json_array();
        bool has_any = false;

        for (size_t i = 0; i < n; i++) {
            has_any |= !isnan(numbers[i].result[k]);
            json_array_append_new(values, json_real_or_null(numbers[i].result[k]));
        }
        if (is_to_target ? !isnan(target) : has_any)
            json_array_append_new(list,
                                  json_pack("{s:s, s:O}", "name", compare_result_names[k], "values", values));
        json_decref(values);
    }
    return list;
}

static int measure_all(struct compare_numbers *numbers, const struct run *runs, size_t n, double target,
                       struct err *e)
{
    for (size_t i = 0; i < n; i++)
        if (compare_measure(&numbers[i], &runs[i], target, e) < 0)
            return e->code;
    return 0;
}

/* [(n)], for settings_free. */
static json_t **settings_all(const struct run *runs, size_t n)
{
    json_t **all = calloc(n ? n : 1, sizeof(json_t *));

    for (size_t i = 0; all && i < n; i++)
        all[i] = compare_settings(&runs[i]);
    return all;
}

static void settings_free(json_t **all, size_t n)
{
    for (size_t i = 0; all && i < n; i++)
        json_decref(all[i]);
    free(all);
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
    differences = settings ? compare_differences(settings, n) : NULL;
    rc = numbers && differences ? measure_all(numbers, runs, n, target, e)
                                : err_set(e, ERR_NOMEM, "no memory for the comparison");
    if (rc == 0 && isnan(target)) {
        target = compare_common_target(numbers, n);
        rc = isnan(target) ? 0 : measure_all(numbers, runs, n, target, e);
    }
    if (rc == 0) {
        *out = json_pack("{s:o, s:o, s:O, s:o}", "runs", runs_json(differences, runs, n), "target",
                         json_real_or_null(target), "settings", differences, "results",
                         results_json(numbers, n, target));
        rc = *out ? 0 : err_set(e, ERR_NOMEM, "no memory for the comparison");
    }
    json_decref(differences);
    settings_free(settings, n);
    free(numbers);
    return rc;
}
