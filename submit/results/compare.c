#include "submit/results/compare.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/json.h"

enum { LABEL_SETTINGS = 3, LABEL_MAX = 120 };

static const char *text_of(const json_t *o, const char *key)
{
    const char *text = json_string_value(json_object_get(o, key));

    return text ? text : "";
}

/* By the settings in which the runs differ: "fedavg learn_rate=0.1". */
static void label_by_settings(char out[LABEL_MAX], const json_t *differences, size_t run)
{
    char value[LABEL_MAX], text[2 * LABEL_MAX];
    const json_t *d;
    size_t i, n = 0;

    out[0] = '\0';
    json_array_foreach(differences, i, d)
    {
        const char *name = text_of(d, "name");

        compare_setting_text(value, sizeof value, json_array_get(json_object_get(d, "values"), run));
        snprintf(text, sizeof text, "%s%s%s%s", n ? " " : "", strcmp(name, "codec") == 0 ? "" : name,
                 strcmp(name, "codec") == 0 ? "" : "=", value);
        n += (size_t)snprintf(out + n, LABEL_MAX - n, "%.*s", (int)(LABEL_MAX - 1 - n), text);
    }
}

static bool are_all_different(char (*labels)[LABEL_MAX], size_t n)
{
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < i; j++)
            if (strcmp(labels[i], labels[j]) == 0)
                return false;
    return true;
}

/* A run's label is short and no other run's: by few settings, else by name, else the id. */
static void choose_labels(char (*labels)[LABEL_MAX], const json_t *differences, const struct run *runs,
                          size_t n)
{
    size_t n_differ = json_array_size(differences);

    for (size_t i = 0; i < n; i++)
        label_by_settings(labels[i], differences, i);
    if (n_differ > 0 && n_differ <= LABEL_SETTINGS && are_all_different(labels, n))
        return;
    for (size_t i = 0; i < n; i++)
        snprintf(labels[i], LABEL_MAX, "%s", text_of(runs[i].doc, "name"));
    if (are_all_different(labels, n))
        return;
    for (size_t i = 0; i < n; i++)
        snprintf(labels[i], LABEL_MAX, "%s", text_of(runs[i].doc, "id"));
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
            list, json_pack("{s:s, s:s, s:o, s:s, s:o, s:O?, s:O?}", "id", text_of(runs[i].doc, "id"), "name",
                            text_of(runs[i].doc, "name"), "label", json_text(labels[i], SIZE_MAX), "state",
                            text_of(runs[i].doc, "state"), "folder", json_text(runs[i].folder, SIZE_MAX),
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
