/* Files of LIBSVM as a data set: one file that is divided, or one file for each half. */
#include <stdio.h>
#include <string.h>

#include "submit/data/data_libsvm.h"
#include "submit/data/data_sets.h"
#include "submit/data/data_table.h"

struct libsvm_options {
    char target[8], group[8], test_file[128];
    int values; /* 0: the largest index */
    int first;
    double test;
    uint64_t seed;
};

static const struct json_field fields[] = {
    {"target", JSON_FIELD_TEXT, JSON_AT(struct libsvm_options, target), .choices = "no|yes"},
    {"group", JSON_FIELD_TEXT, JSON_AT(struct libsvm_options, group), .choices = "none|qid",
     .may_change = true},
    {"values", JSON_FIELD_INT, JSON_AT(struct libsvm_options, values), .min = 0, .max = LAYER_VALUES_MAX,
     .may_change = true},
    {"first", JSON_FIELD_INT, JSON_AT(struct libsvm_options, first), .min = 0, .max = 1, .may_change = true},
    {"test", JSON_FIELD_DOUBLE, JSON_AT(struct libsvm_options, test), .min = 1e-6, .max = 0.999999,
     .may_change = true},
    {"test_file", JSON_FIELD_TEXT, JSON_AT(struct libsvm_options, test_file), .required = false,
     .may_change = true},
    {"seed", JSON_FIELD_U64, JSON_AT(struct libsvm_options, seed), .required = false, .may_change = true},
    {0},
};

struct libsvm_file {
    const char *path;
    struct table_part part;
    size_t len, n_values;
};

static int scan(struct libsvm_file *f, const struct libsvm_form *form, struct err *e)
{
    uint8_t *bytes;
    size_t n_rows;

    if (!f->path[0])
        return 0;
    if (data_read(&bytes, &f->len, f->path, e) < 0)
        return e->code == ERR_NOT_FOUND ? err_hint(e, "--data FILE names the file.") : e->code;
    f->part.text = (char *)bytes;
    return libsvm_scan(&f->n_values, &n_rows, f->part.text, f->len, form, e) < 0 ? err_at(e, "%s", f->path)
                                                                                 : 0;
}

static int parse(struct libsvm_file *f, const struct libsvm_form *form, struct err *e)
{
    if (!f->path[0])
        return 0;
    return libsvm_parse(&f->part.table, f->part.text, f->len, form, e) < 0 ? err_at(e, "%s", f->path) : 0;
}

/* Both files have as many values as the one with the larger index, if their number is not given. */
static int open_files(struct dataset *d, struct libsvm_file *train, struct libsvm_file *test,
                      struct libsvm_form *form, const struct data_use *use, struct err *e)
{
    if (scan(train, form, e) < 0 || scan(test, form, e) < 0)
        return e->code;
    if (form->n_values == 0)
        form->n_values = train->n_values > test->n_values ? train->n_values : test->n_values;
    if (parse(train, form, e) < 0 || parse(test, form, e) < 0)
        return e->code;
    return table_fill(d, &train->part, &test->part, test->path, use->known, e);
}

int libsvm_open(struct dataset *d, const char *arg, const char *path, const struct data_use *use,
                struct err *e)
{
    static const struct table_files files = {"train.libsvm", "test.libsvm"};
    struct libsvm_options o = {.target = "no", .group = "none", .first = 1, .test = 0.2, .seed = 1};
    const struct preprocessing *p = use->known;
    char train_path[PATH_MAX] = "", test_path[PATH_MAX];
    struct libsvm_file train = {.path = train_path}, test = {.path = test_path};
    struct libsvm_form form;
    int rc;

    if (data_options_as(&o, fields, NULL, "libsvm", arg, use, e) < 0)
        return e->code;
    form = (struct libsvm_form){.first = (size_t)o.first,
                                .is_target = p ? p->n_targets > 0 : strcmp(o.target, "yes") == 0,
                                .has_groups = strcmp(o.group, "qid") == 0 && !use->is_whole,
                                .may_lack = use->is_whole,
                                .n_values = p ? (size_t)shape_count(&p->shape) : (size_t)o.values};
    if (use->is_whole && !data_is_folder(path))
        snprintf(test_path, sizeof test_path, "%s", path);
    else if (table_find(train_path, test_path, path, o.test_file, &files, e) < 0)
        return e->code;
    if (use->is_whole)
        train_path[0] = '\0';
    rc = open_files(d, &train, &test, &form, use, e);
    if (rc == 0 && !test_path[0])
        rc = data_split(d, o.test, o.seed, e);
    if (rc < 0)
        dataset_clear(d);
    table_part_clear(&train.part);
    table_part_clear(&test.part);
    return rc;
}
