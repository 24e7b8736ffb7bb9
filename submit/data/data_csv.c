/* CSV files as a data set: one file that is divided, or one file for each half. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/file.h"
#include "submit/data/data_csv.h"
#include "submit/data/data_sets.h"
#include "submit/data/preprocessing.h"

struct csv_options {
    char label[CSV_NAME_LEN], target[CSV_NAME_LEN], group[CSV_NAME_LEN], drop[CSV_DROP_LEN], header[8],
        test_file[128];
    enum csv_missing missing;
    double test;
    uint64_t seed;
};

static const struct json_field fields[] = {
    {"label", JSON_FIELD_TEXT, JSON_AT(struct csv_options, label), .required = false, .may_change = true},
    {"target", JSON_FIELD_TEXT, JSON_AT(struct csv_options, target), .required = false, .may_change = true},
    {"group", JSON_FIELD_TEXT, JSON_AT(struct csv_options, group), .required = false, .may_change = true},
    {"drop", JSON_FIELD_TEXT, JSON_AT(struct csv_options, drop), .required = false, .may_change = true},
    {"header", JSON_FIELD_TEXT, JSON_AT(struct csv_options, header), .choices = "auto|yes|no",
     .may_change = true},
    {"missing", JSON_FIELD_CHOICE, JSON_AT(struct csv_options, missing), .choices = CSV_MISSING_CHOICES,
     .may_change = true},
    {"test", JSON_FIELD_DOUBLE, JSON_AT(struct csv_options, test), .min = 1e-6, .max = 0.999999,
     .may_change = true},
    {"test_file", JSON_FIELD_TEXT, JSON_AT(struct csv_options, test_file), .required = false,
     .may_change = true},
    {"seed", JSON_FIELD_U64, JSON_AT(struct csv_options, seed), .required = false, .may_change = true},
    {0},
};

/* Finds the files of both halves; `test` is empty where one file is divided. */
static int find(char train[PATH_MAX], char test[PATH_MAX], const char *path, const struct csv_options *o,
                struct err *e)
{
    const char *slash = strrchr(path, '/');
    char folder[PATH_MAX];

    test[0] = '\0';
    if (data_is_folder(path)) {
        if (data_find(train, path, "train.csv", e) < 0 ||
            data_find(test, path, o->test_file[0] ? o->test_file : "test.csv", e) < 0)
            return err_hint(
                e, "--data FILE names one file, which is divided, --data DIR a folder with train.csv "
                   "and test.csv.");
        return 0;
    }
    snprintf(train, PATH_MAX, "%s", path);
    if (!o->test_file[0])
        return 0;
    snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - path + 1) : 1, slash ? path : ".");
    return data_find(test, o->test_file[0] == '/' ? "/" : folder, o->test_file, e);
}

struct part {
    char *text;
    struct csv_table table;
    struct data_warnings warnings;
};

static int read_part(struct part *p, const char *path, const struct csv_form *form, struct err *e)
{
    uint8_t *bytes;
    size_t len;

    if (data_read(&bytes, &len, path, e) < 0)
        return e->code == ERR_NOT_FOUND ? err_hint(e, "--data FILE names the file.") : e->code;
    p->text = (char *)bytes;
    return csv_parse(&p->table, p->text, len, form, &p->warnings, e) < 0 ? err_at(e, "%s", path) : 0;
}

static void part_clear(struct part *p)
{
    csv_clear(&p->table);
    data_warnings_clear(&p->warnings);
    free(p->text);
}

static int label(int32_t **out, const struct csv_table *t, const struct csv_classes *c, struct err *e)
{
    *out = malloc(t->n_rows * sizeof **out);
    if (!*out)
        return err_set(e, ERR_NOMEM, "no memory for %zu labels", t->n_rows);
    for (size_t i = 0; i < t->n_rows; i++) {
        const struct csv_cell *w = &t->texts[i];

        (*out)[i] = csv_class_of(c, w);
        if ((*out)[i] < 0)
            return err_set(e, ERR_CONFIG,
                           "line %zu: label \"%.*s\" is not one of the %zu labels of the training file",
                           w->line, (int)w->len, w->at, c->n);
    }
    return 0;
}

/* "cat\0dog\0" */
static char *names_of(const struct csv_classes *c)
{
    size_t len = 0;
    char *names, *to;

    for (size_t i = 0; i < c->n; i++)
        len += c->texts[i].len + 1;
    names = to = calloc(1, len);
    for (size_t i = 0; names && i < c->n; i++) {
        memcpy(to, c->texts[i].at, c->texts[i].len);
        to += c->texts[i].len + 1;
    }
    return names;
}

static int label_both(struct dataset *d, const struct part *train, const struct part *test,
                      const char *test_path, struct err *e)
{
    struct csv_classes c;
    int rc;

    if (csv_classes_find(&c, &train->table, &d->warnings, e) < 0)
        return e->code;
    d->n_classes = (int)c.n;
    d->class_names = names_of(&c);
    rc = d->class_names ? label(&d->train_y, &train->table, &c, e)
                        : err_set(e, ERR_NOMEM, "no memory for %zu classes", c.n);
    if (rc == 0 && test->table.n_rows > 0 && label(&d->test_y, &test->table, &c, e) < 0)
        rc = err_at(e, "%s", test_path);
    free(c.texts);
    return rc;
}

static int compare_groups(const void *a, const void *b, void *arg)
{
    const struct csv_cell *groups = arg;

    return csv_compare(&groups[*(const uint32_t *)a], &groups[*(const uint32_t *)b]);
}

/* Classes of the record, by their texts. */
static int label_known(int32_t **out, const struct csv_table *t, const struct preprocessing *p, struct err *e)
{
    *out = malloc(t->n_rows * sizeof **out);
    if (!*out)
        return err_set(e, ERR_NOMEM, "no memory for %zu labels", t->n_rows);
    for (size_t i = 0; i < t->n_rows; i++) {
        const struct csv_cell *w = &t->texts[i];

        (*out)[i] = (int32_t)preprocessing_class(p, w->at, w->len);
        if ((*out)[i] < 0) {
            preprocessing_no_class(p, w->at, w->len, e);
            return err_at(e, "line %zu", w->line);
        }
    }
    return 0;
}

/* Moves the numbers from the tables to the data set. */
static void take_tables(struct dataset *d, struct part *train, struct part *test, const char *test_path)
{
    const struct csv_table *of = train->table.x ? &train->table : &test->table;

    *d = (struct dataset){.n_train = train->table.n_rows,
                          .n_test = test->table.n_rows,
                          .shape = {.n_dims = 1, .dim = {(int)of->n_values}},
                          .x_type = TENSOR_F32,
                          .train_x = train->table.x,
                          .test_x = test->table.x,
                          .train_t = train->table.targets,
                          .test_t = test->table.targets,
                          .n_targets = of->targets != NULL,
                          .columns = train->table.columns,
                          .learned_at = (int)train->table.learned_at,
                          .warnings = train->warnings};
    train->warnings = (struct data_warnings){0};
    for (const char *one = NULL; (one = data_warning(&test->warnings, one)) != NULL;)
        data_warn(&d->warnings, "%s: %s", test_path, one);
    train->table.columns = NULL;
    train->table.x = test->table.x = train->table.targets = test->table.targets = NULL;
}

static int fill(struct dataset *d, struct part *train, struct part *test, const char *test_path,
                const struct preprocessing *p, struct err *e)
{
    take_tables(d, train, test, test_path);
    if (!p)
        return d->train_t ? 0 : label_both(d, train, test, test_path, e);
    d->n_classes = p->n_classes;
    if (p->classes.n && !(d->class_names = names_packed(&p->classes)))
        return err_set(e, ERR_NOMEM, "no memory for the names of %d classes", p->n_classes);
    if (train->table.texts && label_known(&d->train_y, &train->table, p, e) < 0)
        return e->code;
    return test->table.texts && label_known(&d->test_y, &test->table, p, e) < 0 ? err_at(e, "%s", test_path)
                                                                                : 0;
}

/* The column that the options name must be the one that the model has learned. */
static int check_column(const struct csv_options *o, const struct preprocessing *p, struct err *e)
{
    const char *key = o->target[0] ? "target" : "label", *name = o->target[0] ? o->target : o->label;
    const char *learned = p->columns.n ? p->columns.at[p->learned_at - 1] : "";

    if (!name[0])
        return 0;
    if ((key[0] == 't') != (p->n_targets > 0))
        return err_set(e, ERR_CONFIG, "%s=%s: the model predicts %s", key, name,
                       p->n_targets > 0 ? "values, and not classes" : "classes, and not values");
    if (!p->learned_at || strcmp(name, learned) == 0 || atoi(name) == p->learned_at)
        return 0;
    return learned[0]
               ? err_set(e, ERR_CONFIG, "%s=%s: the model has learned column %d, \"%.60s\"", key, name,
                         p->learned_at, learned)
               : err_set(e, ERR_CONFIG, "%s=%s: the model has learned column %d", key, name, p->learned_at);
}

/* Reads both files, the second one like the first, whose header is in *names then. */
static int read_both(struct part *train, struct part *test, struct names *names, const char *train_path,
                     const char *test_path, const struct csv_form *form, struct err *e)
{
    struct csv_form like = *form;
    struct csv_known known;

    if (read_part(train, train_path, form, e) < 0)
        return e->code;
    if (!test_path[0])
        return 0;
    if (!form->known) {
        const struct csv_table *t = &train->table;

        if (t->columns && names_copy(names, t->columns, t->n_values + 1, e) < 0)
            return e->code;
        known = (struct csv_known){.n_values = t->n_values, .names = names, .learned_at = t->learned_at};
        like.known = &known;
    }
    return read_part(test, test_path, &like, e);
}

static int open_files(struct dataset *d, const char *path, const struct csv_options *o,
                      const struct csv_form *form, const struct data_use *use, struct err *e)
{
    char train_path[PATH_MAX] = "", test_path[PATH_MAX];
    bool is_one = use->is_whole && !data_is_folder(path);
    struct part train = {0}, test = {0};
    struct names names = {0};
    int rc = 0;

    if (is_one)
        snprintf(test_path, sizeof test_path, "%s", path);
    else
        rc = find(train_path, test_path, path, o, e);
    if (rc == 0)
        rc = use->is_whole ? read_part(&test, test_path, form, e)
                           : read_both(&train, &test, &names, train_path, test_path, form, e);
    if (rc == 0) {
        rc = fill(d, &train, &test, test_path, use->known, e);
        if (rc == 0 && train.table.groups)
            rc = data_number_groups(d, compare_groups, train.table.groups, e);
        if (rc == 0 && !test_path[0])
            rc = data_split(d, o->test, o->seed, e);
        if (rc < 0)
            dataset_clear(d);
    }
    names_clear(&names);
    part_clear(&train);
    part_clear(&test);
    return rc;
}

int csv_open(struct dataset *d, const char *arg, const char *path, const struct data_use *use, struct err *e)
{
    struct csv_options o = {.header = "auto", .test = 0.2, .seed = 1};
    const struct preprocessing *p = use->known;
    struct csv_known known;
    struct csv_form form;

    if (data_options_as(&o, fields, NULL, "csv", arg, use, e) < 0)
        return e->code;
    if (o.label[0] && o.target[0])
        return err_set(e, ERR_CONFIG, "label=%s and target=%s exclude each other", o.label, o.target);
    if (p && check_column(&o, p, e) < 0)
        return e->code;
    form = (struct csv_form){.column = o.target[0] ? o.target : o.label,
                             .is_target = p ? p->n_targets > 0 : o.target[0],
                             .header = o.header,
                             .missing = o.missing,
                             .group = o.group,
                             .drop = o.drop};
    if (p) {
        known = (struct csv_known){.n_values = (size_t)shape_count(&p->shape),
                                   .names = &p->columns,
                                   .learned_at = (size_t)p->learned_at,
                                   .may_lack_truth = use->is_whole};
        form.known = &known;
    }
    return open_files(d, path, &o, &form, use, e);
}
