/* The labels of a table: which texts are labels, and the classes that they are. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "shared/base/utf8.h"
#include "submit/data/data_csv_parser.h"
#include "submit/data/dataset.h"

enum { LABEL_LEN = 63, ALIKE_SHOWN = 3, ROWS_MANY = 20 };

/* Texts by which programs say that a value is missing: of pandas, R, SQL and ARFF. */
bool csv_is_missing(const struct csv_cell *c)
{
    static const char *const texts[] = {"",    "?",        "na",     "n/a",     "#n/a",    "#na",     "<na>",
                                        "nan", "-nan",     "nat",    "null",    "(null)",  "none",    "nil",
                                        "\\n", "#n/a n/a", "1.#ind", "-1.#ind", "1.#qnan", "-1.#qnan"};

    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (c->len == strlen(texts[i]) && strncasecmp(c->at, texts[i], c->len) == 0)
            return true;
    return false;
}

static bool is_utf8(const struct csv_cell *c)
{
    size_t k = 1;

    for (size_t at = 0; at < c->len && k > 0; at += k)
        k = utf8_length(c->at + at, c->len - at);
    return k > 0;
}

int csv_check_label(const struct csv_cell *c, size_t column, enum csv_missing missing, struct err *e)
{
    char at[40] = "";

    if (column > 0)
        snprintf(at, sizeof at, ", column %zu", column);
    if (csv_is_missing(c) && (missing != CSV_MISSING_LABEL || c->len == 0)) {
        err_set(e, ERR_CONFIG, "line %zu%s: the label is missing (\"%.*s\")", c->line, at, csv_shown(c),
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

    csv_double(&x, a);
    csv_double(&y, b);
    return x == y ? csv_compare(a, b) : (x > y) - (x < y);
}

/* A label as people read it: in lower case, without spaces, a number by its value. */
struct label_reading {
    char key[LABEL_LEN + 1];
    const struct csv_cell *label;
};

static void read_as_people(struct label_reading *out, const struct csv_cell *c)
{
    size_t n = 0;
    double v;

    out->label = c;
    if (csv_double(&v, c)) {
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

static void check_classes(const struct csv_classes *c, struct data_warnings *w)
{
    struct label_reading *all = malloc(c->n * sizeof *all);
    size_t n = 0;

    for (size_t i = 0; all && i < c->n; i++)
        read_as_people(&all[i], &c->texts[i]);
    if (all)
        qsort(all, c->n, sizeof *all, by_key);
    for (size_t i = 1; all && i < c->n; i++)
        if (by_key(&all[i - 1], &all[i]) == 0 && n++ < ALIKE_SHOWN)
            data_warn(w, "\"%.*s\" and \"%.*s\" are two classes: a label is its text",
                      (int)all[i - 1].label->len, all[i - 1].label->at, (int)all[i].label->len,
                      all[i].label->at);
    free(all);
}

int csv_classes_find(struct csv_classes *c, const struct csv_table *t, struct data_warnings *w, struct err *e)
{
    int (*compare)(const void *, const void *);
    double ignored;

    *c = (struct csv_classes){.texts = malloc(t->n_rows * sizeof *c->texts), .are_numbers = true};
    if (!c->texts)
        return err_set(e, ERR_NOMEM, "no memory for %zu labels", t->n_rows);
    for (size_t i = 0; i < t->n_rows; i++)
        c->are_numbers &= csv_double(&ignored, &t->texts[i]);
    compare = c->are_numbers ? compare_numbers : csv_compare;
    memcpy(c->texts, t->texts, t->n_rows * sizeof *c->texts);
    qsort(c->texts, t->n_rows, sizeof *c->texts, compare);
    for (size_t i = 0; i < t->n_rows; i++)
        if (i == 0 || compare(&c->texts[c->n - 1], &c->texts[i]) != 0)
            c->texts[c->n++] = c->texts[i];
    if (c->n >= 2 && c->n <= CLASSES_MAX) {
        check_classes(c, w);
        if (c->are_numbers && t->n_rows >= ROWS_MANY && c->n > t->n_rows / 2)
            data_warn(
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
    *c = (struct csv_classes){0};
    return e->code;
}

int csv_class_of(const struct csv_classes *c, const struct csv_cell *w)
{
    const struct csv_cell *found;
    double ignored;

    if (c->are_numbers && !csv_double(&ignored, w))
        return -1;
    found = bsearch(w, c->texts, c->n, sizeof *w, c->are_numbers ? compare_numbers : csv_compare);
    return found ? (int)(found - c->texts) : -1;
}
