/* Cells, rows and numbers of a CSV text; data_csv.c makes a data set of them. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "submit/data/data_csv.h"
#include "submit/data/dataset.h"

enum { LABEL_LEN = 63, NUMBER_LEN = 63 };

struct reader {
    char *at, *end;
    size_t line;
    struct csv_cell *cells; /* of the current row */
    size_t n_cells, room, n_seen;
};

/* Skips the end of a cell: a comma (true: another cell follows), or the end of the line or text. */
static bool more_cells(struct reader *r)
{
    if (r->at < r->end && *r->at == ',') {
        r->at++;
        return true;
    }
    if (r->end - r->at >= 2 && r->at[0] == '\r' && r->at[1] == '\n')
        r->at++;
    if (r->at < r->end) {
        r->at++;
        r->n_seen++;
    }
    return false;
}

static bool ends_cell(const struct reader *r)
{
    return r->at == r->end || *r->at == ',' || *r->at == '\n' ||
           (*r->at == '\r' && r->end - r->at >= 2 && r->at[1] == '\n');
}

/* Removes the quotes and turns doubled ones into one; a quoted cell may contain line ends. */
static int read_quoted(struct reader *r, struct csv_cell *c, struct err *e)
{
    char *to = ++r->at;

    c->at = to;
    for (;; *to++ = *r->at++) {
        if (r->at == r->end)
            return err_set(e, ERR_CONFIG, "line %zu, column %zu: a quote is not closed", r->line,
                           r->n_cells + 1);
        r->n_seen += *r->at == '\n';
        if (*r->at != '"')
            continue;
        r->at++;
        if (r->at == r->end || *r->at != '"')
            break;
    }
    c->len = (size_t)(to - c->at);
    if (!ends_cell(r))
        return err_set(e, ERR_CONFIG, "line %zu, column %zu: text after the closing quote", r->line,
                       r->n_cells + 1);
    return 0;
}

static int read_plain(struct reader *r, struct csv_cell *c, struct err *e)
{
    c->at = r->at;
    for (; !ends_cell(r); r->at++)
        if (*r->at == '"' || *r->at == '\0' || *r->at == '\r')
            return err_set(e, ERR_CONFIG, "line %zu, column %zu: %s inside a cell", r->line, r->n_cells + 1,
                           *r->at == '"' ? "a quote" : "a control character");
    c->len = (size_t)(r->at - c->at);
    return 0;
}

static void trim(struct csv_cell *c)
{
    while (c->len > 0 && (c->at[0] == ' ' || c->at[0] == '\t')) {
        c->at++;
        c->len--;
    }
    while (c->len > 0 && (c->at[c->len - 1] == ' ' || c->at[c->len - 1] == '\t'))
        c->len--;
}

static void skip_empty_lines(struct reader *r)
{
    while (r->at < r->end &&
           (*r->at == '\n' || (*r->at == '\r' && r->end - r->at >= 2 && r->at[1] == '\n'))) {
        r->at += *r->at == '\r' ? 2 : 1;
        r->n_seen++;
    }
}

/* Reads the next row that is not empty: returns 1, or 0 at the end of the text. */
static int read_row(struct reader *r, struct err *e)
{
    bool more = true;

    skip_empty_lines(r);
    r->line = r->n_seen + 1;
    if (r->at == r->end)
        return 0;
    for (r->n_cells = 0; more; r->n_cells++) {
        struct csv_cell *c;

        if (r->n_cells == r->room) {
            size_t room = r->room ? 2 * r->room : 64;

            c = realloc(r->cells, room * sizeof *c);
            if (!c)
                return err_set(e, ERR_NOMEM, "no memory for %zu columns", room);
            r->cells = c;
            r->room = room;
        }
        c = &r->cells[r->n_cells];
        c->line = r->line;
        if ((r->at < r->end && *r->at == '"' ? read_quoted(r, c, e) : read_plain(r, c, e)) < 0)
            return e->code;
        trim(c);
        more = more_cells(r);
    }
    return 1;
}

/* Parses a decimal number; a number too large for a double is infinite. */
static bool decimal_of(double *out, const struct csv_cell *c)
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

static bool number_of(double *out, const struct csv_cell *c)
{
    return decimal_of(out, c) && isfinite((float)*out);
}

/* Fast path: most cells of most tables are small integers. */
static bool float_of(float *out, const struct csv_cell *c)
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
    if (!number_of(&d, c))
        return false;
    *out = (float)d;
    return true;
}

static int not_a_number(const struct csv_cell *c, size_t column, struct err *e)
{
    if (c->len == 0)
        return err_set(e, ERR_CONFIG, "line %zu, column %zu: empty, expected a number", c->line, column + 1);
    return err_set(e, ERR_CONFIG, "line %zu, column %zu: \"%.*s\" is not a number that a float can hold",
                   c->line, column + 1, (int)(c->len < 40 ? c->len : 40), c->at);
}

static bool is_named(const struct csv_cell *c, const char *name)
{
    return c->len == strlen(name) && memcmp(c->at, name, c->len) == 0;
}

/* True for a number, even if a float cannot hold it: inf, nan, 1e99. */
static bool is_meant_as_number(const struct csv_cell *c)
{
    static const char *const texts[] = {"nan", "inf", "infinity"};
    size_t sign = c->len > 0 && (c->at[0] == '-' || c->at[0] == '+');
    double ignored;

    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (c->len == sign + strlen(texts[i]) && strncasecmp(c->at + sign, texts[i], c->len - sign) == 0)
            return true;
    return decimal_of(&ignored, c);
}

/* True if there is text where numbers are expected, and no number in any cell. A row with a number is data,
 * so that an error in it is reported: taken for a header it would be dropped silently. */
static bool looks_like_header(const struct reader *r, size_t column, bool is_target)
{
    bool has_cell_text = false;

    for (size_t i = 0; i < r->n_cells; i++) {
        if (is_meant_as_number(&r->cells[i]))
            return false;
        has_cell_text |= (i != column || is_target) && r->cells[i].len > 0;
    }
    return has_cell_text;
}

/* Finds the column to learn, and whether the first row is a header. */
static int choose_column(size_t *column, bool *has_header, const struct reader *r,
                         const struct csv_form *form, struct err *e)
{
    const char *name = form->column;
    bool is_number = name[0] && strlen(name) < 9 && strspn(name, "0123456789") == strlen(name);

    *column = r->n_cells - 1;
    *has_header = strcmp(form->header, "yes") == 0;
    if (is_number) {
        *column = (size_t)atoi(name) - 1;
        if (*column >= r->n_cells)
            return err_set(e, ERR_CONFIG, "column %s of %zu, counted from 1", name, r->n_cells);
    } else if (name[0]) {
        for (*column = 0; *column < r->n_cells && !is_named(&r->cells[*column], name);)
            ++*column;
        for (size_t i = *column + 1; i < r->n_cells; i++)
            if (is_named(&r->cells[i], name))
                return err_set(e, ERR_CONFIG,
                               "columns %zu and %zu are both called \"%s\"; give the column number instead",
                               *column + 1, i + 1, name);
        if (strcmp(form->header, "no") == 0 || *column == r->n_cells)
            return err_set(e, ERR_CONFIG, "no column is called \"%s\" in line %zu", name, r->line);
        *has_header = true;
    }
    if (strcmp(form->header, "auto") == 0 && !*has_header)
        *has_header = looks_like_header(r, *column, form->is_target);
    return 0;
}

static int grow(struct csv_table *t, size_t *room, const struct csv_form *form, struct err *e)
{
    size_t n = *room ? 2 * *room : 256;
    float *x = realloc(t->x, n * t->n_values * sizeof *x);
    void *y;

    t->x = x ? x : t->x;
    if (form->is_target) {
        y = realloc(t->targets, n * sizeof *t->targets);
        t->targets = y ? y : t->targets;
    } else {
        y = realloc(t->texts, n * sizeof *t->texts);
        t->texts = y ? y : t->texts;
    }
    if (!x || !y)
        return err_set(e, ERR_NOMEM, "no memory for %zu rows of %zu values", n, t->n_values);
    *room = n;
    return 0;
}

static int add_row(struct csv_table *t, const struct reader *r, size_t column, const struct csv_form *form,
                   struct err *e)
{
    float *x = t->x + t->n_rows * t->n_values;

    if (r->n_cells != t->n_values + 1)
        return err_set(e, ERR_CONFIG, "line %zu: %zu columns, expected %zu", r->line, r->n_cells,
                       t->n_values + 1);
    for (size_t i = 0; i < r->n_cells; i++) {
        const struct csv_cell *c = &r->cells[i];

        if (i != column || form->is_target) {
            if (!float_of(i != column ? x++ : &t->targets[t->n_rows], c))
                return not_a_number(c, i, e);
        } else if (c->len == 0 || c->len > LABEL_LEN || memchr(c->at, '\0', c->len)) {
            return err_set(e, ERR_CONFIG, "line %zu, column %zu: a label of %zu characters, expected 1 to %d",
                           c->line, i + 1, c->len, LABEL_LEN);
        } else {
            t->texts[t->n_rows] = *c;
        }
    }
    t->n_rows++;
    return 0;
}

/* A single column is most often a line with another separator. */
static int one_column(const struct reader *r, struct err *e)
{
    const char *other = memchr(r->cells[0].at, ';', r->cells[0].len)    ? "semicolons"
                        : memchr(r->cells[0].at, '\t', r->cells[0].len) ? "tabs"
                                                                        : NULL;

    if (other)
        return err_set(e, ERR_CONFIG, "line %zu: its cells are separated by %s, expected commas", r->line,
                       other);
    return err_set(e, ERR_CONFIG, "line %zu: one column, expected values and a label or target", r->line);
}

static bool is_utf16(const char *text, size_t len)
{
    return len >= 2 && (memcmp(text, "\xff\xfe", 2) == 0 || memcmp(text, "\xfe\xff", 2) == 0);
}

int csv_parse(struct csv_table *t, char *text, size_t len, const struct csv_form *form, struct err *e)
{
    struct reader r = {.at = text, .end = text + len};
    size_t column = 0, room = 0;
    bool has_header = false;
    int rc;

    *t = (struct csv_table){0};
    if (len >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
        r.at += 3;
    rc = is_utf16(text, len) ? err_set(e, ERR_CONFIG, "it is UTF-16, expected UTF-8") : read_row(&r, e);
    if (rc == 0)
        rc = err_set(e, ERR_CONFIG, "the file has no rows");
    if (rc > 0 && r.n_cells < 2)
        rc = one_column(&r, e);
    if (rc > 0 && r.n_cells > LAYER_VALUES_MAX)
        rc = err_set(e, ERR_CONFIG, "line %zu: more than %d columns", r.line, LAYER_VALUES_MAX);
    if (rc > 0 && choose_column(&column, &has_header, &r, form, e) < 0)
        rc = e->code;
    t->n_values = r.n_cells - 1;
    if (rc > 0 && has_header)
        rc = read_row(&r, e);
    while (rc > 0) {
        bool is_guess = t->n_rows == 0 && !has_header && strcmp(form->header, "auto") == 0;

        if (t->n_rows == room && grow(t, &room, form, e) < 0)
            rc = e->code;
        else if (add_row(t, &r, column, form, e) < 0)
            rc = is_guess ? err_hint(e, "If line %zu is a header: header=yes", r.line) : e->code;
        else
            rc = read_row(&r, e);
    }
    if (rc == 0 && t->n_rows == 0)
        rc = err_set(e, ERR_CONFIG, "a header and no rows");
    free(r.cells);
    if (rc < 0)
        csv_clear(t);
    return rc;
}

void csv_clear(struct csv_table *t)
{
    free(t->x);
    free(t->targets);
    free(t->texts);
    *t = (struct csv_table){0};
}

static int compare_numbers(const void *a, const void *b)
{
    double x = 0;
    double y = 0;

    number_of(&x, a);
    number_of(&y, b);
    return (x > y) - (x < y);
}

static int compare_cells(const void *a, const void *b)
{
    const struct csv_cell *x = a;
    const struct csv_cell *y = b;
    int c = memcmp(x->at, y->at, x->len < y->len ? x->len : y->len);

    return c ? c : (x->len > y->len) - (x->len < y->len);
}

int csv_classes_find(struct csv_classes *c, const struct csv_table *t, struct err *e)
{
    int (*compare)(const void *, const void *);
    double ignored;

    *c = (struct csv_classes){.texts = malloc(t->n_rows * sizeof *c->texts), .are_numbers = true};
    if (!c->texts)
        return err_set(e, ERR_NOMEM, "no memory for %zu labels", t->n_rows);
    for (size_t i = 0; i < t->n_rows; i++)
        c->are_numbers &= number_of(&ignored, &t->texts[i]);
    compare = c->are_numbers ? compare_numbers : compare_cells;
    memcpy(c->texts, t->texts, t->n_rows * sizeof *c->texts);
    qsort(c->texts, t->n_rows, sizeof *c->texts, compare);
    for (size_t i = 0; i < t->n_rows; i++)
        if (i == 0 || compare(&c->texts[c->n - 1], &c->texts[i]) != 0)
            c->texts[c->n++] = c->texts[i];
    if (c->n >= 2 && c->n <= CLASSES_MAX)
        return 0;
    err_set(e, ERR_CONFIG, "%zu different label%s, expected 2 to %d", c->n, c->n == 1 ? "" : "s",
            CLASSES_MAX);
    err_hint(e, "label=COLUMN names another column; target=COLUMN takes its numbers as values to regress.");
    free(c->texts);
    *c = (struct csv_classes){0};
    return e->code;
}

int csv_class_of(const struct csv_classes *c, const struct csv_cell *w)
{
    const struct csv_cell *found;
    double ignored;

    if (c->are_numbers && !number_of(&ignored, w))
        return -1;
    found = bsearch(w, c->texts, c->n, sizeof *w, c->are_numbers ? compare_numbers : compare_cells);
    return found ? (int)(found - c->texts) : -1;
}
