/* LIBSVM: the rows of a text (data_formats.h), and files as a data set: one file that is divided, or one for
 * each half. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "submit/data/data_file.h"
#include "submit/data/data_formats.h"
#include "submit/data/data_sets.h"

enum { INDEX_DIGITS = 9 };

struct rows {
    const char *at, *end; /* the rest of the text */
    size_t line;
};

struct libsvm_row {
    const char *at, *end; /* the rest of the row */
    size_t line;
    size_t n_read, last; /* entries read so far; the last index + 1 */
};

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

static void skip_blanks(struct libsvm_row *r)
{
    while (r->at < r->end && is_blank(*r->at))
        r->at++;
}

/* The next row that is not empty, without its comment. */
static bool next_row(struct libsvm_row *r, struct rows *all)
{
    while (all->at < all->end) {
        const char *feed = memchr(all->at, '\n', (size_t)(all->end - all->at));
        const char *stop = feed ? feed : all->end;
        const char *comment = memchr(all->at, '#', (size_t)(stop - all->at));

        *r = (struct libsvm_row){.at = all->at, .end = comment ? comment : stop, .line = ++all->line};
        all->at = feed ? feed + 1 : all->end;
        skip_blanks(r);
        if (r->at < r->end)
            return true;
    }
    return false;
}

/* The next text between blanks; false: the row ends. */
static bool next_word(struct table_cell *w, struct libsvm_row *r)
{
    skip_blanks(r);
    *w = (struct table_cell){.at = r->at, .line = r->line};
    while (r->at < r->end && !is_blank(*r->at))
        r->at++;
    w->len = (size_t)(r->at - w->at);
    return w->len > 0;
}

static int no_entry(const struct table_cell *w, struct err *e)
{
    return err_set(e, ERR_CONFIG, "line %zu: \"%.*s\" is no INDEX:VALUE", w->line,
                   (int)(w->len < 40 ? w->len : 40), w->at);
}

/* Reads the index of an entry; *value: the text behind the colon. */
static int read_index(size_t *index, struct table_cell *value, const struct table_cell *w,
                      struct libsvm_row *r, const struct libsvm_form *form, struct err *e)
{
    const char *colon = memchr(w->at, ':', w->len);
    size_t n = 0, digits = colon ? (size_t)(colon - w->at) : 0;

    if (digits == 0 || digits == w->len - 1)
        return no_entry(w, e);
    for (size_t i = 0; i < digits; i++) {
        if (w->at[i] < '0' || w->at[i] > '9' || digits > INDEX_DIGITS)
            return no_entry(w, e);
        n = 10 * n + (size_t)(w->at[i] - '0');
    }
    *value = (struct table_cell){.at = colon + 1, .len = w->len - digits - 1, .line = w->line};
    if (n < form->first) {
        err_set(e, ERR_CONFIG, "line %zu: index %zu, expected 1 or more", w->line, n);
        return err_hint(e, "first=0 reads a file whose indices begin with 0.");
    }
    *index = n - form->first;
    if (*index >= LAYER_VALUES_MAX)
        return err_set(e, ERR_CONFIG, "line %zu: index %zu, at most %d values", w->line, n, LAYER_VALUES_MAX);
    if (r->n_read++ > 0 && *index < r->last)
        return err_set(e, ERR_CONFIG, "line %zu: index %zu is not larger than the one before it", w->line, n);
    r->last = *index + 1;
    return 0;
}

/* Reads the words before the entries; len 0: there is none. *w: the first entry; false: the row has none. */
static bool read_head(struct table_cell *label, struct table_cell *qid, struct table_cell *w,
                      struct libsvm_row *r)
{
    bool more = next_word(w, r);

    *label = *qid = (struct table_cell){.line = r->line};
    if (more && !memchr(w->at, ':', w->len)) {
        *label = *w;
        more = next_word(w, r);
    }
    if (more && w->len > 4 && memcmp(w->at, "qid:", 4) == 0) {
        *qid = (struct table_cell){.at = w->at + 4, .len = w->len - 4, .line = w->line};
        more = next_word(w, r);
    }
    return more;
}

static int check_head(const struct table_cell *label, const struct table_cell *qid,
                      const struct libsvm_form *form, bool lacks_label, struct err *e)
{
    if (label->len == 0 && !form->may_lack)
        return err_set(e, ERR_CONFIG, "line %zu: it begins without a label", label->line);
    if ((label->len == 0) != lacks_label)
        return err_set(e, ERR_CONFIG, "line %zu: it begins %s a label, and lines before it %s one",
                       label->line, label->len == 0 ? "without" : "with",
                       label->len == 0 ? "with" : "without");
    if (label->len > 0 && memchr(label->at, ',', label->len)) {
        err_set(e, ERR_CONFIG, "line %zu: \"%.*s\", expected one label", label->line,
                (int)(label->len < 40 ? label->len : 40), label->at);
        return err_hint(e, "A table whose cells are separated by commas is read by --dataset csv.");
    }
    return form->has_groups && qid->len == 0
               ? err_set(e, ERR_CONFIG, "line %zu: no qid:N behind the label, and group=qid", label->line)
               : 0;
}

static int scan_row(size_t *n_values, struct libsvm_row *r, const struct libsvm_form *form, bool lacks_label,
                    struct err *e)
{
    struct table_cell label, qid, w, value;
    bool more = read_head(&label, &qid, &w, r);
    size_t index;

    if (check_head(&label, &qid, form, lacks_label, e) < 0)
        return e->code;
    for (; more; more = next_word(&w, r)) {
        if (read_index(&index, &value, &w, r, form, e) < 0)
            return e->code;
        *n_values = index >= *n_values ? index + 1 : *n_values;
    }
    return 0;
}

/* Does the first row begin without a label? */
static bool lacks_labels(const char *text, size_t len)
{
    struct rows all = {.at = text, .end = text + len};
    struct table_cell label, qid, w;
    struct libsvm_row r;

    if (!next_row(&r, &all))
        return false;
    read_head(&label, &qid, &w, &r);
    return label.len == 0;
}

int libsvm_scan(size_t *n_values, size_t *n_rows, const char *text, size_t len,
                const struct libsvm_form *form, struct err *e)
{
    size_t mark = data_mark(text, len);
    struct rows all = {.at = text + mark, .end = text + len};
    bool lacks_label = lacks_labels(text + mark, len - mark);
    struct libsvm_row r;

    *n_values = *n_rows = 0;
    if (data_check_text(text, len, e) < 0)
        return e->code;
    for (; next_row(&r, &all); ++*n_rows)
        if (scan_row(n_values, &r, form, lacks_label, e) < 0)
            return e->code;
    if (*n_rows == 0)
        return err_set(e, ERR_CONFIG, "the file has no rows");
    return *n_values > 0 ? 0 : err_set(e, ERR_CONFIG, "its rows have labels and no values");
}

static int make_room(struct data_table *t, const struct libsvm_form *form, bool has_labels, struct err *e)
{
    if (t->n_rows > DATA_BYTES_MAX / sizeof *t->x / t->n_values) {
        err_set(e, ERR_CONFIG,
                "%zu rows of %zu values are more than %d bytes, and samples are kept with their zeros",
                t->n_rows, t->n_values, DATA_BYTES_MAX);
        return err_hint(e, "Leave out rows, or hash the features into fewer (scikit-learn: FeatureHasher).");
    }
    t->x = calloc(t->n_rows * t->n_values, sizeof *t->x);
    if (has_labels && form->is_target)
        t->targets = malloc(t->n_rows * sizeof *t->targets);
    else if (has_labels)
        t->texts = malloc(t->n_rows * sizeof *t->texts);
    if (form->has_groups)
        t->groups = malloc(t->n_rows * sizeof *t->groups);
    if (t->x && (!has_labels || t->targets || t->texts) && (!form->has_groups || t->groups))
        return 0;
    return err_set(e, ERR_NOMEM, "no memory for %zu rows of %zu values", t->n_rows, t->n_values);
}

static int parse_row(struct data_table *t, size_t i, struct libsvm_row *r, const struct libsvm_form *form,
                     struct err *e)
{
    struct table_cell label, qid, w, value;
    bool more = read_head(&label, &qid, &w, r);
    size_t index;

    if (t->texts && table_check_label(&label, 0, TABLE_MISSING_REFUSE, e) < 0)
        return e->code;
    if (t->texts)
        t->texts[i] = label;
    if (t->targets && !table_number(&t->targets[i], &label))
        return err_set(e, ERR_CONFIG, "line %zu: \"%.*s\" is not a number that a float can hold", r->line,
                       (int)(label.len < 40 ? label.len : 40), label.at);
    if (t->groups)
        t->groups[i] = qid;
    for (; more; more = next_word(&w, r)) {
        if (read_index(&index, &value, &w, r, form, e) < 0)
            return e->code;
        if (index >= t->n_values)
            return err_set(e, ERR_CONFIG, "line %zu: index %zu, expected %zu at most", r->line,
                           index + form->first, t->n_values - 1 + form->first);
        if (!table_number(&t->x[i * t->n_values + index], &value))
            return err_set(e, ERR_CONFIG, "line %zu: \"%.*s\" is not a number that a float can hold", r->line,
                           (int)(w.len < 40 ? w.len : 40), w.at);
    }
    return 0;
}

int libsvm_parse(struct data_table *t, const char *text, size_t len, const struct libsvm_form *form,
                 struct err *e)
{
    size_t mark = data_mark(text, len), ignored;
    struct rows all = {.at = text + mark, .end = text + len};
    struct libsvm_row r;
    int rc;

    *t = (struct data_table){.n_values = form->n_values};
    if (libsvm_scan(&ignored, &t->n_rows, text, len, form, e) < 0)
        return e->code;
    t->has_truth = !lacks_labels(text + mark, len - mark);
    rc = make_room(t, form, t->has_truth, e);
    for (size_t i = 0; rc == 0 && next_row(&r, &all); i++)
        rc = parse_row(t, i, &r, form, e);
    if (rc < 0)
        table_clear(t);
    return rc;
}

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

static int scan_file(struct libsvm_file *f, const struct libsvm_form *form, struct err *e)
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

static int parse_file(struct libsvm_file *f, const struct libsvm_form *form, struct err *e)
{
    if (!f->path[0])
        return 0;
    return libsvm_parse(&f->part.table, f->part.text, f->len, form, e) < 0 ? err_at(e, "%s", f->path) : 0;
}

/* Both files have as many values as the one with the larger index, if their number is not given. */
static int open_files(struct dataset *d, struct libsvm_file *train, struct libsvm_file *test,
                      struct libsvm_form *form, const struct data_use *use, struct err *e)
{
    if (scan_file(train, form, e) < 0 || scan_file(test, form, e) < 0)
        return e->code;
    if (form->n_values == 0)
        form->n_values = train->n_values > test->n_values ? train->n_values : test->n_values;
    if (parse_file(train, form, e) < 0 || parse_file(test, form, e) < 0)
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
        rc = dataset_split(d, o.test, o.seed, e);
    if (rc < 0)
        dataset_clear(d);
    table_part_clear(&train.part);
    table_part_clear(&test.part);
    return rc;
}
