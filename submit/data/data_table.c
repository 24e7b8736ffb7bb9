#include "submit/data/data_table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "submit/data/data_sets.h"

int table_find(char train[PATH_MAX], char test[PATH_MAX], const char *path, const char *test_file,
               const struct table_files *files, struct err *e)
{
    const char *slash = strrchr(path, '/');
    char folder[PATH_MAX];

    test[0] = '\0';
    if (data_is_folder(path)) {
        if (data_find(train, path, files->train, e) < 0 ||
            data_find(test, path, test_file[0] ? test_file : files->test, e) < 0)
            return err_hint(
                e, "--data FILE names one file, which is divided, --data DIR a folder with %s and %s.",
                files->train, files->test);
        return 0;
    }
    snprintf(train, PATH_MAX, "%s", path);
    if (!test_file[0])
        return 0;
    snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - path + 1) : 1, slash ? path : ".");
    return data_find(test, test_file[0] == '/' ? "/" : folder, test_file, e);
}

void table_part_clear(struct table_part *p)
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

static int label_both(struct dataset *d, const struct table_part *train, const struct table_part *test,
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
static void take_tables(struct dataset *d, struct table_part *train, struct table_part *test,
                        const char *test_path)
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

int table_fill(struct dataset *d, struct table_part *train, struct table_part *test, const char *test_path,
               const struct preprocessing *p, struct err *e)
{
    take_tables(d, train, test, test_path);
    if (train->table.groups && data_number_groups(d, compare_groups, train->table.groups, e) < 0)
        return e->code;
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
