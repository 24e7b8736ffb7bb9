/* The rows of a file of LIBSVM; data_libsvm.c makes a data set of them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "submit/data/data_kind.h"
#include "submit/data/data_libsvm.h"
#include "submit/data/data_sets.h"

enum { INDEX_DIGITS = 9 };

struct rows {
    const char *at, *end; /* what is left of the text */
    size_t line;
};

struct libsvm_row {
    const char *at, *end; /* what is left of the row */
    size_t line;
    size_t n_read, last; /* its entries so far, the last index + 1 */
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
static bool next_word(struct csv_cell *w, struct libsvm_row *r)
{
    skip_blanks(r);
    *w = (struct csv_cell){.at = r->at, .line = r->line};
    while (r->at < r->end && !is_blank(*r->at))
        r->at++;
    w->len = (size_t)(r->at - w->at);
    return w->len > 0;
}

static int no_entry(const struct csv_cell *w, struct err *e)
{
    return err_set(e, ERR_CONFIG, "line %zu: \"%.*s\" is no INDEX:VALUE", w->line,
                   (int)(w->len < 40 ? w->len : 40), w->at);
}

/* Reads the index of an entry; *value: the text behind the colon. */
static int read_index(size_t *index, struct csv_cell *value, const struct csv_cell *w, struct libsvm_row *r,
                      const struct libsvm_form *form, struct err *e)
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
    *value = (struct csv_cell){.at = colon + 1, .len = w->len - digits - 1, .line = w->line};
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
static bool read_head(struct csv_cell *label, struct csv_cell *qid, struct csv_cell *w, struct libsvm_row *r)
{
    bool more = next_word(w, r);

    *label = *qid = (struct csv_cell){.line = r->line};
    if (more && !memchr(w->at, ':', w->len)) {
        *label = *w;
        more = next_word(w, r);
    }
    if (more && w->len > 4 && memcmp(w->at, "qid:", 4) == 0) {
        *qid = (struct csv_cell){.at = w->at + 4, .len = w->len - 4, .line = w->line};
        more = next_word(w, r);
    }
    return more;
}

static int check_head(const struct csv_cell *label, const struct csv_cell *qid,
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
    struct csv_cell label, qid, w, value;
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
    struct csv_cell label, qid, w;
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

static int make_room(struct csv_table *t, const struct libsvm_form *form, bool has_labels, struct err *e)
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

static int parse_row(struct csv_table *t, size_t i, struct libsvm_row *r, const struct libsvm_form *form,
                     struct err *e)
{
    struct csv_cell label, qid, w, value;
    bool more = read_head(&label, &qid, &w, r);
    size_t index;

    if (t->texts && csv_check_label(&label, 0, CSV_MISSING_REFUSE, e) < 0)
        return e->code;
    if (t->texts)
        t->texts[i] = label;
    if (t->targets && !csv_number(&t->targets[i], &label))
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
        if (!csv_number(&t->x[i * t->n_values + index], &value))
            return err_set(e, ERR_CONFIG, "line %zu: \"%.*s\" is not a number that a float can hold", r->line,
                           (int)(w.len < 40 ? w.len : 40), w.at);
    }
    return 0;
}

int libsvm_parse(struct csv_table *t, const char *text, size_t len, const struct libsvm_form *form,
                 struct err *e)
{
    size_t mark = data_mark(text, len), ignored;
    struct rows all = {.at = text + mark, .end = text + len};
    struct libsvm_row r;
    int rc;

    *t = (struct csv_table){.n_values = form->n_values};
    if (libsvm_scan(&ignored, &t->n_rows, text, len, form, e) < 0)
        return e->code;
    t->has_truth = !lacks_labels(text + mark, len - mark);
    rc = make_room(t, form, t->has_truth, e);
    for (size_t i = 0; rc == 0 && next_row(&r, &all); i++)
        rc = parse_row(t, i, &r, form, e);
    if (rc < 0)
        csv_clear(t);
    return rc;
}
