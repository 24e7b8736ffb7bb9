/* CSV files as a data set: one file that is divided, or one file for each half. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/file.h"
#include "submit/data/data_csv.h"
#include "submit/data/data_file.h"
#include "submit/data/data_sets.h"

struct csv_options {
    char label[CSV_NAME_LEN], target[CSV_NAME_LEN], group[CSV_NAME_LEN], drop[CSV_DROP_LEN], header[8],
        test_file[128];
    enum table_missing missing;
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
    {"missing", JSON_FIELD_CHOICE, JSON_AT(struct csv_options, missing), .choices = TABLE_MISSING_CHOICES,
     .may_change = true},
    {"test", JSON_FIELD_DOUBLE, JSON_AT(struct csv_options, test), .min = 1e-6, .max = 0.999999,
     .may_change = true},
    {"test_file", JSON_FIELD_TEXT, JSON_AT(struct csv_options, test_file), .required = false,
     .may_change = true},
    {"seed", JSON_FIELD_U64, JSON_AT(struct csv_options, seed), .required = false, .may_change = true},
    {0},
};

static const struct table_files files = {"train.csv", "test.csv"};

static int read_part(struct table_part *p, const char *path, const struct csv_form *form, struct err *e)
{
    uint8_t *bytes;
    size_t len;

    if (data_read(&bytes, &len, path, e) < 0)
        return e->code == ERR_NOT_FOUND ? err_hint(e, "--data FILE names the file.") : e->code;
    p->text = (char *)bytes;
    return csv_parse(&p->table, p->text, len, form, &p->warnings, e) < 0 ? err_at(e, "%s", path) : 0;
}

/* Did the options of the record's set name the column in the same way? A number there counts all columns of
 * the file, also those that were left out. */
static bool is_named_so(const struct csv_options *o, const struct preprocessing *p)
{
    struct csv_options then = {0};
    struct err ignored;

    return strncmp(p->dataset, "csv:", 4) == 0 &&
           data_options(&then, fields, NULL, p->dataset + 4, &ignored) == 0 &&
           strcmp(o->label, then.label) == 0 && strcmp(o->target, then.target) == 0;
}

/* The column that the options name must be the one that the model has learned. */
static int check_column(const struct csv_options *o, const struct preprocessing *p, struct err *e)
{
    const char *key = o->target[0] ? "target" : "label", *name = o->target[0] ? o->target : o->label;
    const char *learned = p->columns.n ? p->columns.at[p->learned_at - 1] : "";

    if (!name[0] || is_named_so(o, p))
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

/* Reads both files, the second one like the first; *names: the first one's header. */
static int read_both(struct table_part *train, struct table_part *test, struct names *names,
                     const char *train_path, const char *test_path, const struct csv_form *form,
                     struct err *e)
{
    struct csv_form like = *form;
    struct csv_known known;

    if (read_part(train, train_path, form, e) < 0)
        return e->code;
    if (!test_path[0])
        return 0;
    if (!form->known) {
        const struct data_table *t = &train->table;

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
    struct table_part train = {0}, test = {0};
    struct names names = {0};
    int rc = 0;

    if (is_one)
        snprintf(test_path, sizeof test_path, "%s", path);
    else if (use->is_whole)
        rc = data_find(test_path, path, o->test_file[0] ? o->test_file : "test.csv", e);
    else
        rc = table_find(train_path, test_path, path, o->test_file, &files, e);
    if (rc == 0)
        rc = use->is_whole ? read_part(&test, test_path, form, e)
                           : read_both(&train, &test, &names, train_path, test_path, form, e);
    if (rc == 0) {
        rc = table_fill(d, &train, &test, test_path, use->known, e);
        if (rc == 0 && !test_path[0])
            rc = dataset_split(d, o->test, o->seed, e);
        if (rc < 0)
            dataset_clear(d);
    }
    names_clear(&names);
    table_part_clear(&train);
    table_part_clear(&test);
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
