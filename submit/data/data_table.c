#include "submit/data/data_table.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "shared/base/utf8.h"
#include "submit/data/data_file.h"

enum { NUMBER_LEN = 63, LABEL_LEN = 63, ALIKE_SHOWN = 3, ROWS_MANY = 20 };

bool table_decimal(double *out, const struct table_cell *c)
{
    char text[NUMBER_LEN + 1];
    char *end;

    if (c->len == 0 || c->len > NUMBER_LEN)
        return false;
    memcpy(text, c->at, c->len);
    text[c->len] = '\0';
    if (strspn(text, "0123456789.eE+-") != c->len)
        return false;
    *out = strtod(text, &end);
    return !*end;
}

bool table_double(double *out, const struct table_cell *c)
{
    return table_decimal(out, c) && isfinite((float)*out);
}

/* Fast path: most cells of most tables are small integers. */
bool table_number(float *out, const struct table_cell *c)
{
    double d;
    int v = 0;
    size_t i = 0;

    for (; i < c->len && i < 7 && c->at[i] >= '0' && c->at[i] <= '9'; i++)
        v = 10 * v + (c->at[i] - '0');
    if (i == c->len && i > 0) {
        *out = (float)v;
        return true;
    }
    if (!table_double(&d, c))
        return false;
    *out = (float)d;
    return true;
}

int table_compare_cells(const void *a, const void *b)
{
    const struct table_cell *x = a;
    const struct table_cell *y = b;
    int c = memcmp(x->at, y->at, x->len < y->len ? x->len : y->len);

    return c ? c : (x->len > y->len) - (x->len < y->len);
}

int table_shown(const struct table_cell *c)
{
    return (int)(c->len < TABLE_SHOWN ? c->len : TABLE_SHOWN);
}

/* The texts of a missing value of pandas, R, SQL and ARFF. */
bool table_is_missing(const struct table_cell *c)
{
    static const char *const texts[] = {"",    "?",        "na",     "n/a",     "#n/a",    "#na",     "<na>",
                                        "nan", "-nan",     "nat",    "null",    "(null)",  "none",    "nil",
                                        "\\n", "#n/a n/a", "1.#ind", "-1.#ind", "1.#qnan", "-1.#qnan"};

    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (c->len == strlen(texts[i]) && strncasecmp(c->at, texts[i], c->len) == 0)
            return true;
    return false;
}

static bool is_utf8(const struct table_cell *c)
{
    size_t k = 1;

    for (size_t at = 0; at < c->len && k > 0; at += k)
        k = utf8_length(c->at + at, c->len - at);
    return k > 0;
}

int table_check_label(const struct table_cell *c, size_t column, enum table_missing missing, struct err *e)
{
    char at[40] = "";

    if (column > 0)
        snprintf(at, sizeof at, ", column %zu", column);
    if (table_is_missing(c) && (missing != TABLE_MISSING_LABEL || c->len == 0)) {
        err_set(e, ERR_CONFIG, "line %zu%s: the label is missing (\"%.*s\")", c->line, at, table_shown(c),
                c->at);
        return column == 0 ? e->code
                           : err_hint(e, "missing=drop leaves out rows with a missing cell%s.",
                                      c->len > 0 ? "; missing=label takes the text for a class" : "");
    }
    if (c->len > LABEL_LEN || memchr(c->at, '\0', c->len))
        return err_set(e, ERR_CONFIG, "line %zu%s: a label of %zu characters, expected 1 to %d", c->line, at,
                       c->len, LABEL_LEN);
    if (!is_utf8(c)) {
        err_set(e, ERR_CONFIG, "line %zu%s: the label is not UTF-8", c->line, at);
        return err_hint(e, "iconv -f LATIN1 -t UTF-8 FILE >NEW converts a file.");
    }
    return 0;
}

/* Different texts of a number are different labels: "01" is not "1". */
static int compare_numbers(const void *a, const void *b)
{
    double x = 0;
    double y = 0;

    table_double(&x, a);
    table_double(&y, b);
    return x == y ? table_compare_cells(a, b) : (x > y) - (x < y);
}

/* A label as people read it: key is in lower case, without spaces, and a number by its value. */
struct label_reading {
    char key[LABEL_LEN + 1];
    const struct table_cell *label;
};

static void read_as_people(struct label_reading *out, const struct table_cell *c)
{
    size_t n = 0;
    double v;

    out->label = c;
    if (table_double(&v, c)) {
        snprintf(out->key, sizeof out->key, "%.17g", v);
        return;
    }
    for (size_t i = 0; i < c->len; i++) {
        bool is_wide_space = (unsigned char)c->at[i] == 0xc2 && i + 1 < c->len &&
                             (unsigned char)c->at[i + 1] == 0xa0;

        i += is_wide_space; /* a non-breaking space */
        if (!is_wide_space && c->at[i] != ' ' && c->at[i] != '\t')
            out->key[n++] = (char)tolower((unsigned char)c->at[i]);
    }
    out->key[n] = '\0';
}

static int by_key(const void *a, const void *b)
{
    return strcmp(((const struct label_reading *)a)->key, ((const struct label_reading *)b)->key);
}

/* Warns of labels that people read alike. */
static void check_classes(const struct table_classes *c, struct dataset_warnings *w)
{
    struct label_reading *all = malloc(c->n * sizeof *all);
    size_t n = 0;

    for (size_t i = 0; all && i < c->n; i++)
        read_as_people(&all[i], &c->texts[i]);
    if (all)
        qsort(all, c->n, sizeof *all, by_key);
    for (size_t i = 1; all && i < c->n; i++)
        if (by_key(&all[i - 1], &all[i]) == 0 && n++ < ALIKE_SHOWN)
            dataset_warn(w, "\"%.*s\" and \"%.*s\" are two classes: a label is its text",
                         (int)all[i - 1].label->len, all[i - 1].label->at, (int)all[i].label->len,
                         all[i].label->at);
    free(all);
}

int table_classes_find(struct table_classes *c, const struct data_table *t, struct dataset_warnings *w,
                       struct err *e)
{
    int (*compare)(const void *, const void *);
    double ignored;

    *c = (struct table_classes){.texts = malloc(t->n_rows * sizeof *c->texts), .are_numbers = true};
    if (!c->texts)
        return err_set(e, ERR_NOMEM, "no memory for %zu labels", t->n_rows);
    for (size_t i = 0; i < t->n_rows; i++)
        c->are_numbers &= table_double(&ignored, &t->texts[i]);
    compare = c->are_numbers ? compare_numbers : table_compare_cells;
    memcpy(c->texts, t->texts, t->n_rows * sizeof *c->texts);
    qsort(c->texts, t->n_rows, sizeof *c->texts, compare);
    for (size_t i = 0; i < t->n_rows; i++)
        if (i == 0 || compare(&c->texts[c->n - 1], &c->texts[i]) != 0)
            c->texts[c->n++] = c->texts[i];
    if (c->n >= 2 && c->n <= CLASSES_MAX) {
        check_classes(c, w);
        if (c->are_numbers && t->n_rows >= ROWS_MANY && c->n > t->n_rows / 2)
            dataset_warn(
                w,
                "the %zu rows have %zu different numbers as labels, each a class of its own; target= for "
                "label=, of LIBSVM target=yes, takes them for values to regress",
                t->n_rows, c->n);
        return 0;
    }
    err_set(e, ERR_CONFIG, "%zu different label%s, expected 2 to %d", c->n, c->n == 1 ? "" : "s",
            CLASSES_MAX);
    err_hint(
        e,
        "label=COLUMN names another column of a table; target=COLUMN, of LIBSVM target=yes, takes numbers as "
        "values to regress.");
    free(c->texts);
    *c = (struct table_classes){0};
    return e->code;
}

int table_class_of(const struct table_classes *c, const struct table_cell *w)
{
    const struct table_cell *found;
    double ignored;

    if (c->are_numbers && !table_double(&ignored, w))
        return -1;
    found = bsearch(w, c->texts, c->n, sizeof *w, c->are_numbers ? compare_numbers : table_compare_cells);
    return found ? (int)(found - c->texts) : -1;
}

void table_clear(struct data_table *t)
{
    free(t->x);
    free(t->targets);
    free(t->texts);
    free(t->columns);
    free(t->groups);
    *t = (struct data_table){0};
}

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
    table_clear(&p->table);
    dataset_warnings_clear(&p->warnings);
    free(p->text);
}

/* Numbers the labels of a table by its own classes. */
static int number_labels(int32_t **out, const struct data_table *t, const struct table_classes *c,
                         struct err *e)
{
    *out = malloc(t->n_rows * sizeof **out);
    if (!*out)
        return err_set(e, ERR_NOMEM, "no memory for %zu labels", t->n_rows);
    for (size_t i = 0; i < t->n_rows; i++) {
        const struct table_cell *w = &t->texts[i];

        (*out)[i] = table_class_of(c, w);
        if ((*out)[i] < 0)
            return err_set(e, ERR_CONFIG,
                           "line %zu: label \"%.*s\" is not one of the %zu labels of the training file",
                           w->line, (int)w->len, w->at, c->n);
    }
    return 0;
}

/* "cat\0dog\0" */
static char *names_of(const struct table_classes *c)
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

static int number_both(struct dataset *d, const struct table_part *train, const struct table_part *test,
                       const char *test_path, struct err *e)
{
    struct table_classes c;
    int rc;

    if (table_classes_find(&c, &train->table, &d->warnings, e) < 0)
        return e->code;
    d->n_classes = (int)c.n;
    d->class_names = names_of(&c);
    rc = d->class_names ? number_labels(&d->train_y, &train->table, &c, e)
                        : err_set(e, ERR_NOMEM, "no memory for %zu classes", c.n);
    if (rc == 0 && test->table.n_rows > 0 && number_labels(&d->test_y, &test->table, &c, e) < 0)
        rc = err_at(e, "%s", test_path);
    free(c.texts);
    return rc;
}

static int compare_groups(const void *a, const void *b, void *arg)
{
    const struct table_cell *groups = arg;

    return table_compare_cells(&groups[*(const uint32_t *)a], &groups[*(const uint32_t *)b]);
}

/* Numbers the labels of a table by the classes of the record. */
static int number_known_labels(int32_t **out, const struct data_table *t, const struct preprocessing *p,
                               struct err *e)
{
    *out = malloc(t->n_rows * sizeof **out);
    if (!*out)
        return err_set(e, ERR_NOMEM, "no memory for %zu labels", t->n_rows);
    for (size_t i = 0; i < t->n_rows; i++) {
        const struct table_cell *w = &t->texts[i];

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
    const struct data_table *of = train->table.x ? &train->table : &test->table;

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
    train->warnings = (struct dataset_warnings){0};
    for (const char *one = NULL; (one = dataset_warning(&test->warnings, one)) != NULL;)
        dataset_warn(&d->warnings, "%s: %s", test_path, one);
    train->table.columns = NULL;
    train->table.x = test->table.x = train->table.targets = test->table.targets = NULL;
}

int table_fill(struct dataset *d, struct table_part *train, struct table_part *test, const char *test_path,
               const struct preprocessing *p, struct err *e)
{
    take_tables(d, train, test, test_path);
    if (train->table.groups && dataset_number_groups(d, compare_groups, train->table.groups, e) < 0)
        return e->code;
    if (!p)
        return d->train_t ? 0 : number_both(d, train, test, test_path, e);
    d->n_classes = p->n_classes;
    if (p->classes.n && !(d->class_names = names_packed(&p->classes)))
        return err_set(e, ERR_NOMEM, "no memory for the names of %d classes", p->n_classes);
    if (train->table.texts && number_known_labels(&d->train_y, &train->table, p, e) < 0)
        return e->code;
    return test->table.texts && number_known_labels(&d->test_y, &test->table, p, e) < 0
               ? err_at(e, "%s", test_path)
               : 0;
}
