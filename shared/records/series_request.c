#include "shared/records/series_request.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/choice.h"

const char *const series_x_names[] = {"step", "epoch", "time", "bytes", NULL};

static const struct series_file series_files[] = {
    {"train", NULL, NULL, ARTIFACT_TRAIN, {true, true, true, true}},
    {"eval", NULL, NULL, ARTIFACT_EVAL, {true, true, true, true}},
    {"codec", "name", "value", ARTIFACT_CODEC_RECORDS, {[SERIES_STEP] = true, [SERIES_TIME] = true}},
    {"metrics", "metric", "value", ARTIFACT_METRICS, {true, true, true}},
};

enum { N_FILES = sizeof series_files / sizeof *series_files };

const struct series_file *series_file_of(int artifact)
{
    for (size_t i = 0; i < N_FILES; i++)
        if ((int)series_files[i].id == artifact)
            return &series_files[i];
    return NULL;
}

static int find_choice(const char *text, const char *const *choices, const char *what, struct err *e)
{
    for (int i = 0; choices[i]; i++)
        if (strcmp(text, choices[i]) == 0)
            return i;
    err_set(e, ERR_USAGE, "%s=%.64s is not known", what, text);
    return choice_suggest(text, choices, e);
}

bool series_is_name(const char *text, size_t len)
{
    static const char *const keys[] = {"node", "role", "rows", "x"};

    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (strlen(keys[i]) == len && memcmp(keys[i], text, len) == 0)
            return false;
    for (size_t i = 0; i < len; i++)
        if (text[i] <= ' ' || text[i] > '~' || text[i] == '"' || text[i] == '\\' || text[i] == '<')
            return false;
    return len > 0 && len < SERIES_NAME;
}

/* The columns of a file that are values. */
static void columns_of(const char *out[RECORD_COLUMNS_MAX + 2], const struct series_file *f)
{
    size_t n = 0;

    for (const struct record_column *c = artifacts[f->id].columns; c->name; c++)
        if (c->type != RECORD_TEXT && series_is_name(c->name, strlen(c->name)))
            out[n++] = c->name;
    out[n++] = RECORD_SIM_TIME;
    out[n] = NULL;
}

/* A name of a file with a column for each value is a column's. */
static int check_column(const struct series_file *f, const char *name, const char *what, struct err *e)
{
    const char *columns[RECORD_COLUMNS_MAX + 2], *near;
    char list[512] = "";
    size_t n = 0;

    if (f->name_column)
        return 0;
    columns_of(columns, f);
    for (size_t i = 0; columns[i]; i++)
        if (strcmp(columns[i], name) == 0)
            return 0;
    for (size_t i = 0; columns[i] && n < sizeof list; i++)
        n += (size_t)snprintf(list + n, sizeof list - n, "%s%s", i ? ", " : "", columns[i]);
    err_set(e, ERR_USAGE, "%s %.64s: %s.csv has no such value; it has %s", what, name, f->name, list);
    near = choice_near(name, columns);
    return near ? err_hint(e, "Did you mean \"%s\"?", near) : e->code;
}

static int set_names(struct series_request *r, const struct series_file *f, const char *text, struct err *e)
{
    for (const char *at = text; *at;) {
        size_t len = strcspn(at, ",");

        if (!series_is_name(at, len))
            return err_set(e, ERR_USAGE, "names: \"%.64s\" is not a list of values with commas", text);
        if (r->n_names == SERIES_NAMES)
            return err_set(e, ERR_USAGE, "names: more than %d", SERIES_NAMES);
        memcpy(r->names[r->n_names], at, len);
        r->names[r->n_names][len] = '\0';
        if (check_column(f, r->names[r->n_names], "names", e) < 0)
            return e->code;
        for (size_t i = 0; i < r->n_names; i++)
            if (strcmp(r->names[i], r->names[r->n_names]) == 0)
                return err_set(e, ERR_USAGE, "names: %s is there twice", r->names[i]);
        r->n_names++;
        at += len + (at[len] == ',');
    }
    return 0;
}

/* A number of the query; an absent or empty one leaves *out. */
static int set_number(double *out, const char *text, const char *what, struct err *e)
{
    char *end;

    if (!text || !*text)
        return 0;
    *out = strtod(text, &end);
    return *end || !isfinite(*out) ? err_set(e, ERR_USAGE, "%s=%.64s is not a number", what, text) : 0;
}

int series_request_set(struct series_request *r, const struct series_query *q, struct err *e)
{
    const char *names[N_FILES + 1] = {NULL};
    const struct series_file *f;
    double points = 1000;
    int file;
    int x;

    for (size_t i = 0; i < N_FILES; i++)
        names[i] = series_files[i].name;
    *r = (struct series_request){
        .from = -INFINITY, .to = INFINITY, .nodes_most = SIZE_MAX, .points_in_all = SERIES_POINTS_IN_ALL};
    if ((file = find_choice(q->file ? q->file : "train", names, "file", e)) < 0 ||
        (x = find_choice(q->x ? q->x : "step", series_x_names, "x", e)) < 0 ||
        set_number(&points, q->points, "points", e) < 0 || set_number(&r->from, q->from, "from", e) < 0 ||
        set_number(&r->to, q->to, "to", e) < 0)
        return e->code;
    f = &series_files[file];
    if (!f->has_x[x])
        return err_set(e, ERR_USAGE, "%s.csv has no %s: use another x", f->name, series_x_names[x]);
    if (!(points >= 2 && points <= SERIES_POINTS))
        return err_set(e, ERR_USAGE, "points: from 2 to %d", SERIES_POINTS);
    r->file = (int)f->id;
    r->x = (enum series_x)x;
    r->points = (size_t)points;
    return set_names(r, f, q->names ? q->names : f->name_column ? "" : "loss,accuracy", e);
}

int series_check_name(const char *file, const char *name, const char *what, struct err *e)
{
    for (size_t i = 0; i < N_FILES; i++)
        if (strcmp(series_files[i].name, file) == 0)
            return series_is_name(name, strlen(name)) && !strchr(name, ',')
                       ? check_column(&series_files[i], name, what, e)
                       : err_set(e, ERR_USAGE, "%s \"%.64s\": no value has such a name", what, name);
    return err_set(e, ERR_USAGE, "%.64s.csv has no curves", file);
}
