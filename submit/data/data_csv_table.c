/* Cells, rows and numbers of a CSV text, and which of its columns are values; data_csv_labels.c has the
 * labels, and data_csv.c makes a data set of both. */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "submit/data/data_csv.h"
#include "submit/data/data_kind.h"
#include "submit/data/dataset.h"

enum {
    NUMBER_LEN = 63,
    NAME_SHOWN = 40,
    COUNTED_MIN = 3,
    SPACED_MIN = 4,
    ROWS_COUNTED_MIN = 3,
    ROWS_SPACED_MIN = 10,
    COLUMNS_SHOWN = 3,
    FIRST_VALUES = 1 << 16 /* for which there is room at first */
};

struct reader {
    char *at, *end;
    size_t line;
    struct csv_cell *cells; /* of the current row */
    size_t n_cells, room, n_seen;
    int *place; /* (n_columns), of each column of the table: CSV_TRUTH, ... */
    size_t n_columns;
    size_t learned;                  /* the column, of a table that is read on its own */
    size_t n_lacking, first_lacking; /* rows without a label or target; the line of the first one */
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

bool csv_double(double *out, const struct csv_cell *c)
{
    return decimal_of(out, c) && isfinite((float)*out);
}

/* Fast path: most cells of most tables are small integers. */
bool csv_number(float *out, const struct csv_cell *c)
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
    if (!csv_double(&d, c))
        return false;
    *out = (float)d;
    return true;
}

int csv_compare(const void *a, const void *b)
{
    const struct csv_cell *x = a;
    const struct csv_cell *y = b;
    int c = memcmp(x->at, y->at, x->len < y->len ? x->len : y->len);

    return c ? c : (x->len > y->len) - (x->len < y->len);
}

static int by_name(const void *a, const void *b)
{
    return csv_compare(*(const struct csv_cell *const *)a, *(const struct csv_cell *const *)b);
}

int csv_shown(const struct csv_cell *c)
{
    return (int)(c->len < NAME_SHOWN ? c->len : NAME_SHOWN);
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

/* A row of numbers is a header if they count 0, 1, 2, ...: pandas writes that for columns without names, of
 * which some may have one ("0,1,2,label"). Returns how far they count from `first`; 0: they do not. */
static size_t count_from(const struct reader *r, long first)
{
    size_t n = 0;

    for (size_t i = 0; i < r->n_cells; i++) {
        char next[24];

        if (!is_meant_as_number(&r->cells[i]))
            continue;
        snprintf(next, sizeof next, "%ld", first + (long)n++);
        if (!is_named(&r->cells[i], next))
            return 0;
    }
    return n;
}

/* How many whole numbers the row has if each is the one before plus the same step, as in 2019, 2020, 2021;
 * v: the first two. 0: it is not so, or of three by chance. */
static size_t count_spaced(double v[2], const struct reader *r)
{
    double x, last = 0, step = 0;
    size_t n = 0;

    for (size_t i = 0; i < r->n_cells; i++) {
        if (!is_meant_as_number(&r->cells[i]))
            continue;
        if (!decimal_of(&x, &r->cells[i]) || x != floor(x))
            return 0;
        step = n == 1 ? x - last : step;
        if (n > 0 && (step == 0 || x - last != step))
            return 0;
        if (n < 2)
            v[n] = x;
        last = x;
        n++;
    }
    return n >= SPACED_MIN || (n >= COUNTED_MIN && fabs(step) == 1) ? n : 0;
}

/* True if there is text where numbers are expected, and no number in any cell, or if the numbers count from
 * 0. Another row with a number is data, so that an error in it is reported: taken for a header it would be
 * dropped silently. */
static bool looks_like_header(const struct reader *r, size_t column, const struct csv_form *form,
                              struct data_warnings *w)
{
    size_t n_counted = count_from(r, 0);
    double v[2] = {0, 1};
    bool has_cell_text = false;

    if (n_counted >= COUNTED_MIN) {
        data_warn(w, "line %zu counts 0, 1, 2, ... and is taken for the header; header=no takes it for data",
                  r->line);
        return true;
    }
    if (n_counted > 1 || count_spaced(v, r) > 0)
        data_warn(w,
                  "line %zu counts %.0f, %.0f, ... and is taken for data; header=yes takes it for the header",
                  r->line, v[0], v[1]);
    for (size_t i = 0; i < r->n_cells; i++) {
        if (is_meant_as_number(&r->cells[i]))
            return false;
        has_cell_text |= (i != column || form->is_target) && r->cells[i].len > 0;
    }
    return has_cell_text;
}

/* The column of that name; n_cells: there is none. ERR_CONFIG: there are two. */
static int find_name(size_t *column, const struct reader *r, const char *name, struct err *e)
{
    for (*column = 0; *column < r->n_cells && !is_named(&r->cells[*column], name);)
        ++*column;
    for (size_t i = *column + 1; i < r->n_cells; i++)
        if (is_named(&r->cells[i], name))
            return err_set(e, ERR_CONFIG, "columns %zu and %zu are both called \"%s\"", *column + 1, i + 1,
                           name);
    return 0;
}

static int no_such_name(const struct reader *r, const char *name, struct err *e)
{
    err_set(e, ERR_CONFIG, "no column is called \"%s\" in line %zu, of %zu columns", name, r->line,
            r->n_cells);
    for (size_t i = 0; i < r->n_cells; i++)
        if (r->cells[i].len == strlen(name) && strncasecmp(r->cells[i].at, name, r->cells[i].len) == 0)
            return err_hint(e, "Did you mean \"%.*s\"?", csv_shown(&r->cells[i]), r->cells[i].at);
    return e->code;
}

/* Finds the column to learn, and whether the first row is a header. A number is a name first, as header and
 * data may both be numbers, and then a place; one that is no place can only be a name of the first row. */
static int choose_column(size_t *column, bool *has_header, const struct reader *r,
                         const struct csv_form *form, struct data_warnings *w, struct err *e)
{
    const char *name = form->column;
    bool is_number = name[0] && strlen(name) < 9 && strspn(name, "0123456789") == strlen(name);
    bool is_auto = strcmp(form->header, "auto") == 0;
    size_t place = is_number ? (size_t)atoi(name) - 1 : r->n_cells - 1, named = r->n_cells, group;

    if (name[0] && (!is_number || place >= r->n_cells) && strcmp(form->header, "no") != 0 &&
        find_name(&named, r, name, e) < 0)
        return err_hint(e, "The column's number, counted from 1, names one of them.");
    *has_header = strcmp(form->header, "yes") == 0 || named < r->n_cells ||
                  (is_auto && form->group[0] && !isdigit((unsigned char)form->group[0]) &&
                   find_name(&group, r, form->group, e) == 0 && group < r->n_cells) ||
                  (is_auto && looks_like_header(r, place < r->n_cells ? place : r->n_cells - 1, form, w));
    if (is_number && *has_header && find_name(&named, r, name, e) < 0)
        return e->code;
    *column = named < r->n_cells ? named : place;
    if (name[0] && !is_number && named == r->n_cells)
        return no_such_name(r, name, e);
    if (*column >= r->n_cells)
        return err_set(e, ERR_CONFIG, "column %s of %zu, counted from 1", name, r->n_cells);
    return 0;
}

/* Whether column i is a value, or the one to learn. */
static bool is_used(const struct reader *r, size_t i)
{
    return r->place[i] != CSV_LEFT_OUT && r->place[i] != CSV_GROUP;
}

/* The place of a column by its name in the header or its number from 1; n_cells: there is none. */
static int find_column(size_t *column, const struct reader *r, bool has_header, const char *name,
                       struct err *e)
{
    *column = r->n_cells;
    if (has_header && find_name(column, r, name, e) < 0)
        return e->code;
    if (*column == r->n_cells && strlen(name) < 9 && strspn(name, "0123456789") == strlen(name) &&
        atoi(name) > 0 && (size_t)atoi(name) <= r->n_cells)
        *column = (size_t)atoi(name) - 1;
    return 0;
}

/* Whether a column of a table that is read like another has, as the only one, a name of that one. */
static bool has_known_name(const struct reader *r, bool has_header, const struct csv_form *form,
                           size_t column)
{
    const struct csv_cell *c = &r->cells[column];
    size_t n = 0;

    if (!form->known || !has_header || names_find(form->known->names, c->at, c->len) < 0)
        return false;
    for (size_t i = 0; i < r->n_cells; i++)
        n += csv_compare(&r->cells[i], c) == 0;
    return n == 1;
}

/* Marks the columns that are no values, of the list "A+B": CSV_LEFT_OUT or CSV_GROUP. A table that is read
 * like another may lack them. */
static int mark_out(struct reader *r, bool has_header, const struct csv_form *form, const char *list,
                    int mark, struct err *e)
{
    char copy[CSV_DROP_LEN], *rest = copy, *name;
    size_t column;

    snprintf(copy, sizeof copy, "%s", list);
    while (copy[0] && (name = strsep(&rest, "+")) != NULL) {
        if (find_column(&column, r, has_header, name, e) < 0)
            return e->code;
        /* A number is a place in the first table: in another one a column of a known name may stand there. */
        if (form->known && (column == r->n_cells || has_known_name(r, has_header, form, column)))
            continue;
        if (column == r->n_cells)
            return no_such_name(r, name, e);
        if (!is_used(r, column))
            return err_set(e, ERR_CONFIG, "column \"%s\" is left out already", name);
        r->place[column] = mark;
    }
    return 0;
}

static int find_out(struct reader *r, bool has_header, const struct csv_form *form, struct err *e)
{
    for (size_t i = 0; i < r->n_cells; i++)
        r->place[i] = 0;
    /* Without names a table of as many columns as the known ones has no others. */
    if (form->known && !has_header && r->n_cells <= form->known->n_values + 1)
        return 0;
    return mark_out(r, has_header, form, form->drop, CSV_LEFT_OUT, e) < 0 ||
                   mark_out(r, has_header, form, form->group, CSV_GROUP, e) < 0
               ? e->code
               : 0;
}

/* Names of a column that is meant to be learned. */
static bool is_truth_name(const struct csv_cell *c)
{
    static const char *const names[] = {"label", "labels", "class", "classes", "target", "targets", "y"};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (c->len == strlen(names[i]) && strncasecmp(c->at, names[i], c->len) == 0)
            return true;
    return false;
}

/* pandas calls columns "Unnamed: 0", ... that it has read without a name. */
static bool is_no_name(const char *name)
{
    return !name[0] || strncmp(name, "Unnamed: ", 9) == 0;
}

/* The names of a header that may be a misunderstanding. `column` is learned. */
static void check_names(const struct reader *r, size_t column, struct data_warnings *w)
{
    const struct csv_cell *learned = &r->cells[column];
    struct csv_cell **order = malloc(r->n_cells * sizeof *order);
    size_t n = 0;

    for (size_t i = 0; i < r->n_cells; i++)
        if (i != column && is_used(r, i) && is_truth_name(&r->cells[i]))
            data_warn(
                w,
                "column %zu is called \"%.*s\" and is taken for a value; learned is column %zu, \"%.*s\"; "
                "label=%zu or target=%zu learns column %zu",
                i + 1, (int)r->cells[i].len, r->cells[i].at, column + 1, csv_shown(learned), learned->at,
                i + 1, i + 1, i + 1);
    for (size_t i = 0; order && i < r->n_cells; i++)
        if (is_used(r, i))
            order[n++] = &r->cells[i];
    if (order)
        qsort(order, n, sizeof *order, by_name);
    for (size_t i = 1; i < n; i++)
        if (order[i]->len > 0 && by_name(&order[i - 1], &order[i]) == 0) {
            data_warn(w, "two columns are called \"%.*s\"", csv_shown(order[i]), order[i]->at);
            break;
        }
    free(order);
}

/* The names of the header. A name ends at a zero byte, as a C string does. */
static int take_names(struct csv_table *t, const struct reader *r, struct err *e)
{
    size_t len = 0;
    char *to;

    for (size_t i = 0; i < r->n_cells; i++)
        len += r->cells[i].len + 1;
    t->columns = to = calloc(1, len);
    if (!to)
        return err_set(e, ERR_NOMEM, "no memory for the names of %zu columns", r->n_cells);
    for (size_t i = 0; i < r->n_cells; i++) {
        size_t n = strnlen(r->cells[i].at, r->cells[i].len);

        if (!is_used(r, i))
            continue;
        memcpy(to, r->cells[i].at, n);
        to += n + 1;
    }
    return 0;
}

static int grow(struct csv_table *t, size_t *room, const struct csv_form *form, struct err *e)
{
    size_t first = FIRST_VALUES / t->n_values, n = *room ? 2 * *room : first ? first : 1;
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
    if (y && form->group[0]) {
        y = realloc(t->groups, n * sizeof *t->groups);
        t->groups = y ? y : t->groups;
    }
    if (!x || !y)
        return err_set(e, ERR_NOMEM, "no memory for %zu rows of %zu values", n, t->n_values);
    *room = n;
    return 0;
}

static bool has_missing(const struct reader *r)
{
    for (size_t i = 0; i < r->n_cells; i++)
        if (r->place[i] != CSV_LEFT_OUT && csv_is_missing(&r->cells[i]))
            return true;
    return false;
}

static bool may_lack_truth(const struct csv_form *form)
{
    return form->known && form->known->may_lack_truth;
}

/* The name of a column that is used; NULL: there is no header. */
static const char *name_of(const struct csv_table *t, const struct reader *r, size_t column)
{
    const char *name = t->columns;

    for (size_t i = 0; name && i < column; i++)
        if (is_used(r, i))
            name += strlen(name) + 1;
    return name;
}

/* Whether drop= finds the column by its name. */
static bool is_name_for_drop(const struct csv_table *t, const struct reader *r, const char *name)
{
    const char *other = t->columns;
    size_t n = 0;

    if (!name || !name[0] || strpbrk(name, "+,'\"") || strspn(name, "0123456789") == strlen(name))
        return false;
    for (size_t i = 0; i < r->n_cells; i++)
        if (is_used(r, i)) {
            n += strcmp(other, name) == 0;
            other += strlen(other) + 1;
        }
    return n == 1;
}

/* Appends a column to the list of drop=, by its name, or by its number where drop= would misunderstand that.
 * Returns false if there is no more room. */
static bool list_column(char list[CSV_DROP_LEN], const struct csv_table *t, const struct reader *r, size_t i)
{
    const char *name = name_of(t, r, i);
    size_t len = strlen(list), n;

    n = (size_t)(is_name_for_drop(t, r, name)
                     ? snprintf(list + len, CSV_DROP_LEN - len, "%s%s", len ? "+" : "", name)
                     : snprintf(list + len, CSV_DROP_LEN - len, "%s%zu", len ? "+" : "", i + 1));
    if (n < CSV_DROP_LEN - len)
        return true;
    list[len] = '\0';
    return false;
}

/* What to do about columns of text: learn another column, or leave out all of the row that are no numbers. */
static int hint_text(const struct csv_table *t, const struct reader *r, const struct csv_form *form,
                     struct err *e)
{
    const char *name = form->column[0] ? NULL : t->columns;
    size_t n_values = 0, n_texts = 0;
    char list[CSV_DROP_LEN];
    float ignored;

    for (size_t i = 0; name && i < r->n_cells; i++) {
        const struct csv_cell c = {.at = name, .len = strlen(name)};

        if (r->place[i] >= 0 && is_truth_name(&c))
            return err_hint(e, "The last column is learned; label=%s learns column %zu.", name, i + 1);
        if (is_used(r, i))
            name += c.len + 1;
    }
    for (size_t i = 0; i < r->n_cells; i++) {
        n_values += r->place[i] >= 0;
        n_texts += r->place[i] >= 0 && !csv_is_missing(&r->cells[i]) && !csv_number(&ignored, &r->cells[i]);
    }
    if (n_texts > 1 && n_texts == n_values)
        return err_hint(
            e, "No value of this line is a number. A second header, or a line of units, is to be left "
               "out; pandas.get_dummies() makes numbers of text.");
    snprintf(list, sizeof list, "%s", form->drop);
    for (size_t i = 0; i < r->n_cells; i++)
        if (r->place[i] >= 0 && !csv_is_missing(&r->cells[i]) && !csv_number(&ignored, &r->cells[i]) &&
            !list_column(list, t, r, i))
            break;
    return err_hint(e, "drop=%s leaves columns of text out; pandas.get_dummies() makes numbers of them.",
                    list);
}

static bool is_made_of(const struct csv_cell *c, const char *characters)
{
    for (size_t i = 0; i < c->len; i++)
        if (!c->at[i] || !strchr(characters, c->at[i]))
            return false;
    return true;
}

/* The cell of column i, which is expected to be a number. */
static int not_a_number(const struct csv_table *t, const struct reader *r, size_t i,
                        const struct csv_form *form, struct err *e)
{
    const struct csv_cell *c = &r->cells[i];
    const char *name = form->known ? NULL : name_of(t, r, i);
    char at[2 * NAME_SHOWN + 64], list[CSV_DROP_LEN];

    snprintf(at, sizeof at, "line %zu, column %zu", c->line, i + 1);
    if (name && name[0])
        snprintf(at + strlen(at), sizeof at - strlen(at), ", \"%.*s\"", NAME_SHOWN, name);
    if (memchr(c->at, ';', c->len))
        return err_set(e, ERR_CONFIG, "%s: \"%.*s\": its cells are separated by semicolons, expected commas",
                       at, csv_shown(c), c->at);
    if (c->len == 0)
        err_set(e, ERR_CONFIG, "%s: empty, expected a number", at);
    else
        err_set(e, ERR_CONFIG, "%s: \"%.*s\" is not a number that a float can hold", at, csv_shown(c), c->at);
    if (csv_is_missing(c) && may_lack_truth(form))
        return err_hint(e, "Every row is predicted, and needs its values, also under missing=drop.");
    if (form->known)
        return e->code;
    if (r->place[i] < 0)
        return csv_is_missing(c) ? err_hint(e, "missing=drop leaves out rows with a missing cell.")
                                 : err_hint(e, "target= learns numbers; label= takes texts for classes.");
    if (memchr(c->at, ',', c->len) && is_made_of(c, "0123456789,.+- "))
        return err_hint(e,
                        "pandas.read_csv(FILE, decimal=\",\"), or thousands=\",\", reads such numbers, and "
                        ".to_csv(\"NEW.csv\", index=False) writes them as expected.");
    if (!csv_is_missing(c))
        return hint_text(t, r, form, e);
    snprintf(list, sizeof list, "%s", form->drop);
    list_column(list, t, r, i);
    return err_hint(e, "missing=drop leaves out rows with a missing cell, drop=%s this column.", list);
}

/* Counts the rows without a label or target: all of them may be. */
static bool lacks_truth(struct reader *r, const struct csv_cell *c)
{
    if (!csv_is_missing(c))
        return false;
    if (r->n_lacking++ == 0)
        r->first_lacking = c->line;
    return true;
}

/* What separates the cells of a line instead of commas; NULL: not known. */
static const char *other_separator(const struct csv_cell *c)
{
    static const struct {
        char c;
        const char *name;
    } others[] = {{';', "semicolons"}, {'\t', "tabs"}, {'|', "bars (|)"}, {' ', "spaces"}};

    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (memchr(c->at, others[i].c, c->len))
            return others[i].name;
    return NULL;
}

static int add_row(struct csv_table *t, struct reader *r, const struct csv_form *form, struct err *e)
{
    float *x = t->x + t->n_rows * t->n_values;

    if (r->n_cells != r->n_columns) {
        const char *other = r->n_cells == 1 ? other_separator(&r->cells[0]) : NULL;

        return err_set(e, ERR_CONFIG, "line %zu: %zu column%s%s%s, expected %zu", r->line, r->n_cells,
                       r->n_cells == 1 ? "" : "s", other ? ", or cells that are separated by " : "",
                       other ? other : "", r->n_columns);
    }
    if (form->missing == CSV_MISSING_DROP && !may_lack_truth(form) && has_missing(r)) {
        t->n_dropped++;
        return 0;
    }
    for (size_t i = 0; i < r->n_cells; i++) {
        const struct csv_cell *c = &r->cells[i];
        int place = r->place[i];

        if (place == CSV_GROUP && csv_is_missing(c))
            return err_set(e, ERR_CONFIG, "line %zu, column %zu: the group is missing", c->line, i + 1);
        if (place == CSV_GROUP)
            t->groups[t->n_rows] = *c;
        if (!is_used(r, i) || (place == CSV_TRUTH && may_lack_truth(form) && lacks_truth(r, c)))
            continue;
        if (place >= 0 || form->is_target) {
            if (!csv_number(place >= 0 ? &x[place] : &t->targets[t->n_rows], c))
                return not_a_number(t, r, i, form, e);
        } else if (csv_check_label(c, i + 1, form->missing, e) < 0) {
            return e->code;
        } else {
            t->texts[t->n_rows] = *c;
        }
    }
    t->n_rows++;
    return 0;
}

/* Whether the values of a column count the rows: from 0 or 1, or from any whole number in equal steps. */
static bool counts_rows(const struct csv_table *t, size_t value)
{
    const float *x = t->x + value;
    double first = *x, step;
    bool is_counted = first == 0 || first == 1;

    if (t->n_rows < (size_t)(is_counted ? ROWS_COUNTED_MIN : ROWS_SPACED_MIN) || first != floor(first))
        return false;
    step = t->n_rows < ROWS_SPACED_MIN ? 1 : round(x[t->n_values] - first);
    for (size_t i = 1; i < t->n_rows; i++)
        if (step == 0 || x[i * t->n_values] != (float)(first + step * (double)i))
            return false;
    return true;
}

static int by_text(const void *a, const void *b)
{
    return csv_compare(a, b);
}

/* The first row's label stands in no other row; one that is a number counts only if each other label stands
 * in several. */
static bool is_label_of_header(const struct csv_table *t)
{
    struct csv_cell *rest;
    bool is_lonely = true;
    double ignored;

    if (t->n_rows < ROWS_COUNTED_MIN)
        return false;
    for (size_t i = 1; i < t->n_rows; i++)
        if (csv_compare(&t->texts[0], &t->texts[i]) == 0)
            return false;
    if (!csv_double(&ignored, &t->texts[0]))
        return true;
    rest = malloc(t->n_rows * sizeof *rest);
    if (!rest)
        return false;
    memcpy(rest, t->texts + 1, (t->n_rows - 1) * sizeof *rest);
    qsort(rest, t->n_rows - 1, sizeof *rest, by_text);
    for (size_t i = 0; i + 1 < t->n_rows; i++)
        is_lonely &= (i > 0 && csv_compare(&rest[i - 1], &rest[i]) == 0) ||
                     (i + 2 < t->n_rows && csv_compare(&rest[i], &rest[i + 1]) == 0);
    free(rest);
    return is_lonely;
}

/* Columns that are row numbers, as pandas and databases write them, and not values. */
static void check_columns(const struct csv_table *t, const struct reader *r, struct data_warnings *w)
{
    const char *next = t->columns, *name;
    size_t n_shown = 0;

    for (size_t i = 0; i < r->n_columns && n_shown < COLUMNS_SHOWN; i++) {
        bool is_value = r->place[i] >= 0, is_unnamed, is_counted;

        name = next;
        if (next && is_used(r, i))
            next += strlen(next) + 1;
        is_unnamed = is_value && name && is_no_name(name);
        is_counted = is_value && counts_rows(t, (size_t)r->place[i]);
        if (!is_counted && !is_unnamed)
            continue;
        n_shown++;
        data_warn(w,
                  "column %zu %s%s%s and is taken for a value, as any other: a model may learn from it the "
                  "order of the rows; drop=%zu leaves it out, and pandas does with to_csv(index=False)",
                  i + 1, is_unnamed ? "has no name" : "", is_unnamed && is_counted ? ", " : "",
                  is_counted ? "counts the rows" : "", i + 1);
    }
}

/* What the rows say about columns and first line. */
static void check_rows(const struct csv_table *t, const struct reader *r, bool has_guessed,
                       const struct csv_form *form, struct data_warnings *w)
{
    check_columns(t, r, w);
    if (has_guessed && !form->is_target && is_label_of_header(t))
        data_warn(
            w,
            "line %zu is taken for data, but no other row has its label, \"%.*s\"; header=yes takes the line "
            "for the header",
            t->texts[0].line, csv_shown(&t->texts[0]), t->texts[0].at);
}

/* A single column is most often a line with another separator. */
static int one_column(const struct reader *r, struct err *e)
{
    const char *other = other_separator(&r->cells[0]);

    if (r->cells[0].len > 0 && r->cells[0].at[0] == '#') {
        err_set(e, ERR_CONFIG, "line %zu: a comment, expected a header or numbers", r->line);
        return err_hint(e, "grep -v '^#' FILE >NEW leaves such lines out.");
    }
    if (!other)
        return err_set(e, ERR_CONFIG, "line %zu: one column, expected values and a label or target", r->line);
    err_set(e, ERR_CONFIG, "line %zu: its cells are separated by %s, expected commas", r->line, other);
    return err_hint(
        e,
        "pandas converts it: pandas.read_csv(FILE, sep=\"%s\").to_csv(\"NEW.csv\", index=False), and "
        "of decimal commas with decimal=\",\".",
        strcmp(other, "semicolons") == 0 ? ";"
        : strcmp(other, "tabs") == 0     ? "\\t"
        : strcmp(other, "spaces") == 0   ? "\\\\s+"
                                         : "|");
}

/* The places of a table that is read on its own; returns the number of values. */
static int place_learned(size_t *n_values, struct reader *r, size_t column, struct err *e)
{
    int next = 0;

    if (!is_used(r, column))
        return err_set(e, ERR_CONFIG,
                       "column %zu is learned, and can neither be left out nor be that of the groups",
                       column + 1);
    for (size_t i = 0; i < r->n_cells; i++)
        if (is_used(r, i))
            r->place[i] = i == column ? CSV_TRUTH : next++;
    *n_values = (size_t)next;
    return next > 0 ? 0 : err_set(e, ERR_CONFIG, "no column of values is left");
}

/* Those of one that is read like another: the columns that are left are placed among the known ones. */
static int place_like(struct reader *r, bool has_header, const struct csv_known *k, struct data_warnings *w,
                      struct err *e)
{
    struct csv_cell *cells = malloc(r->n_cells * sizeof *cells);
    int *place = malloc(r->n_cells * sizeof *place);
    struct csv_row row = {.cells = cells, .line = r->line};
    int rc = cells && place ? 0 : err_set(e, ERR_NOMEM, "no memory for %zu columns", r->n_cells);

    for (size_t i = 0; rc == 0 && i < r->n_cells; i++)
        if (is_used(r, i))
            cells[row.n_cells++] = r->cells[i];
    if (rc == 0)
        rc = csv_place_known(place, &row, has_header, k, w, e);
    for (size_t i = 0, next = 0; rc == 0 && i < r->n_cells; i++)
        if (is_used(r, i))
            r->place[i] = place[next++];
    free(place);
    free(cells);
    return rc;
}

static int place_known(bool *has_header, struct reader *r, const struct csv_form *form,
                       struct data_warnings *w, struct err *e)
{
    const struct csv_row row = {.cells = r->cells, .n_cells = r->n_cells, .line = r->line};
    const struct csv_known *k = form->known;
    size_t column = r->n_cells == k->n_values + 1 ? k->learned_at - 1 : r->n_cells, n_values;

    if (k->learned_at == 0 && r->n_cells == k->n_values + 1)
        return choose_column(&column, has_header, r, form, w, e) < 0 ||
                       find_out(r, *has_header, form, e) < 0 || place_learned(&n_values, r, column, e) < 0
                   ? e->code
                   : 0;
    *has_header = strcmp(form->header, "yes") == 0 ||
                  (strcmp(form->header, "auto") == 0 &&
                   (csv_is_known_header(&row, k) || looks_like_header(r, column, form, w)));
    if (!*has_header && r->n_cells <= k->n_values + 1 && (form->drop[0] || form->group[0]))
        data_warn(
            w,
            "the file has no header, and no more columns than the training data without those of drop= and "
            "group=: all are taken for these");
    return find_out(r, *has_header, form, e) < 0 ? e->code : place_like(r, *has_header, k, w, e);
}

/* Finds the table's columns in its first row. */
static int find_columns(struct csv_table *t, bool *has_header, struct reader *r, const struct csv_form *form,
                        struct data_warnings *w, struct err *e)
{
    size_t column = 0;

    r->n_columns = r->n_cells;
    r->place = malloc(r->n_cells * sizeof *r->place);
    if (!r->place)
        return err_set(e, ERR_NOMEM, "no memory for %zu columns", r->n_cells);
    if (form->known) {
        t->n_values = form->known->n_values;
        return place_known(has_header, r, form, w, e);
    }
    if (choose_column(&column, has_header, r, form, w, e) < 0 || find_out(r, *has_header, form, e) < 0 ||
        place_learned(&t->n_values, r, column, e) < 0)
        return e->code;
    r->learned = column;
    for (size_t i = 0; i <= column; i++)
        t->learned_at += is_used(r, i);
    return 0;
}

/* Labels or targets are there for all rows or for none. */
static int check_truth(struct csv_table *t, const struct reader *r, struct err *e)
{
    t->has_truth = r->n_lacking == 0;
    for (size_t i = 0; i < r->n_columns && t->has_truth; i++)
        if (r->place[i] == CSV_TRUTH)
            return 0;
    t->has_truth = false;
    free(t->targets);
    free(t->texts);
    t->targets = NULL;
    t->texts = NULL;
    if (r->n_lacking == 0 || r->n_lacking == t->n_rows)
        return 0;
    err_set(e, ERR_CONFIG, "line %zu: the label or target is missing, as in %zu of %zu rows",
            r->first_lacking, r->n_lacking, t->n_rows);
    return err_hint(e, "Rows are predicted without that column, or with one that is empty in all of them.");
}

int csv_parse(struct csv_table *t, char *text, size_t len, const struct csv_form *form,
              struct data_warnings *w, struct err *e)
{
    struct reader r = {.at = text, .end = text + len};
    size_t room = 0;
    bool has_header = false, is_auto = strcmp(form->header, "auto") == 0;
    int rc;

    *t = (struct csv_table){0};
    r.at += data_mark(text, len);
    rc = data_check_text(text, len, e) < 0 || data_check_table(text, len, e) < 0 ? e->code : read_row(&r, e);
    if (rc == 0)
        rc = err_set(e, ERR_CONFIG, "the file has no rows");
    if (rc > 0 && r.n_cells < 2 &&
        (!form->known || (form->known->n_values > 1 && other_separator(&r.cells[0]))))
        rc = one_column(&r, e);
    if (rc > 0 && r.n_cells > LAYER_VALUES_MAX)
        rc = err_set(e, ERR_CONFIG, "line %zu: more than %d columns", r.line, LAYER_VALUES_MAX);
    if (rc > 0 && find_columns(t, &has_header, &r, form, w, e) < 0)
        rc = e->code;
    if (rc > 0 && has_header && !form->known) {
        check_names(&r, r.learned, w);
        if (take_names(t, &r, e) < 0)
            rc = e->code;
    }
    if (rc > 0 && has_header)
        rc = read_row(&r, e);
    while (rc > 0) {
        bool is_guess = t->n_rows == 0 && !has_header && is_auto;

        if (t->n_rows == room && grow(t, &room, form, e) < 0)
            rc = e->code;
        else if (add_row(t, &r, form, e) < 0)
            rc = is_guess ? err_hint(e, "If line %zu is a header: header=yes", r.line) : e->code;
        else
            rc = read_row(&r, e);
    }
    if (rc == 0 && t->n_rows == 0)
        rc = t->n_dropped > 0
                 ? err_set(e, ERR_CONFIG, "each of its %zu rows has a missing cell", t->n_dropped)
                 : err_set(e, ERR_CONFIG, "a header and no rows");
    if (rc == 0)
        rc = check_truth(t, &r, e);
    if (rc == 0 && !form->known)
        check_rows(t, &r, is_auto && !has_header, form, w);
    if (rc == 0 && t->n_dropped > 0)
        data_warn(w, "%zu of %zu rows have a missing cell and are left out", t->n_dropped,
                  t->n_rows + t->n_dropped);
    free(r.cells);
    free(r.place);
    if (rc < 0)
        csv_clear(t);
    return rc;
}

void csv_clear(struct csv_table *t)
{
    free(t->x);
    free(t->targets);
    free(t->texts);
    free(t->columns);
    free(t->groups);
    *t = (struct csv_table){0};
}
