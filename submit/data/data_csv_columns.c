/* Which row of a CSV text is its header, and which of its columns are values. */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "submit/data/data_csv_reader.h"
#include "submit/data/dataset.h"

enum { COUNTED_MIN = 3, SPACED_MIN = 4 };

static int by_name(const void *a, const void *b)
{
    return csv_compare(*(const struct csv_cell *const *)a, *(const struct csv_cell *const *)b);
}

/* A row of numbers is a header if they count 0, 1, 2, ...: pandas writes that for columns without names, of
 * which some may have one ("0,1,2,label"). Returns how far they count from `first`; 0: they do not. */
static size_t count_from(const struct csv_reader *r, long first)
{
    size_t n = 0;

    for (size_t i = 0; i < r->n_cells; i++) {
        char next[24];

        if (!csv_is_meant_as_number(&r->cells[i]))
            continue;
        snprintf(next, sizeof next, "%ld", first + (long)n++);
        if (!csv_is_named(&r->cells[i], next))
            return 0;
    }
    return n;
}

/* How many whole numbers the row has if each is the one before plus the same step, as in 2019, 2020, 2021;
 * v: the first two. 0: it is not so, or of three by chance. */
static size_t count_spaced(double v[2], const struct csv_reader *r)
{
    double x, last = 0, step = 0;
    size_t n = 0;

    for (size_t i = 0; i < r->n_cells; i++) {
        if (!csv_is_meant_as_number(&r->cells[i]))
            continue;
        if (!csv_decimal(&x, &r->cells[i]) || x != floor(x))
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
static bool looks_like_header(const struct csv_reader *r, size_t column, const struct csv_form *form,
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
        if (csv_is_meant_as_number(&r->cells[i]))
            return false;
        has_cell_text |= (i != column || form->is_target) && r->cells[i].len > 0;
    }
    return has_cell_text;
}

/* The column of that name; n_cells: there is none. ERR_CONFIG: there are two. */
static int find_name(size_t *column, const struct csv_reader *r, const char *name, struct err *e)
{
    for (*column = 0; *column < r->n_cells && !csv_is_named(&r->cells[*column], name);)
        ++*column;
    for (size_t i = *column + 1; i < r->n_cells; i++)
        if (csv_is_named(&r->cells[i], name))
            return err_set(e, ERR_CONFIG, "columns %zu and %zu are both called \"%s\"", *column + 1, i + 1,
                           name);
    return 0;
}

static int no_such_name(const struct csv_reader *r, const char *name, struct err *e)
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
static int choose_column(size_t *column, bool *has_header, const struct csv_reader *r,
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
bool csv_is_used(const struct csv_reader *r, size_t i)
{
    return r->place[i] != CSV_LEFT_OUT && r->place[i] != CSV_GROUP;
}

/* The place of a column by its name in the header or its number from 1; n_cells: there is none. */
static int find_column(size_t *column, const struct csv_reader *r, bool has_header, const char *name,
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
static bool has_known_name(const struct csv_reader *r, bool has_header, const struct csv_form *form,
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
static int mark_out(struct csv_reader *r, bool has_header, const struct csv_form *form, const char *list,
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
        if (!csv_is_used(r, column))
            return err_set(e, ERR_CONFIG, "column \"%s\" is left out already", name);
        r->place[column] = mark;
    }
    return 0;
}

static int find_out(struct csv_reader *r, bool has_header, const struct csv_form *form, struct err *e)
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
bool csv_is_truth_name(const struct csv_cell *c)
{
    static const char *const names[] = {"label", "labels", "class", "classes", "target", "targets", "y"};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (c->len == strlen(names[i]) && strncasecmp(c->at, names[i], c->len) == 0)
            return true;
    return false;
}

/* The names of a header that may be a misunderstanding. `column` is learned. */
void csv_check_names(const struct csv_reader *r, size_t column, struct data_warnings *w)
{
    const struct csv_cell *learned = &r->cells[column];
    struct csv_cell **order = malloc(r->n_cells * sizeof *order);
    size_t n = 0;

    for (size_t i = 0; i < r->n_cells; i++)
        if (i != column && csv_is_used(r, i) && csv_is_truth_name(&r->cells[i]))
            data_warn(
                w,
                "column %zu is called \"%.*s\" and is taken for a value; learned is column %zu, \"%.*s\"; "
                "label=%zu or target=%zu learns column %zu",
                i + 1, (int)r->cells[i].len, r->cells[i].at, column + 1, csv_shown(learned), learned->at,
                i + 1, i + 1, i + 1);
    for (size_t i = 0; order && i < r->n_cells; i++)
        if (csv_is_used(r, i))
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
int csv_take_names(struct csv_table *t, const struct csv_reader *r, struct err *e)
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

        if (!csv_is_used(r, i))
            continue;
        memcpy(to, r->cells[i].at, n);
        to += n + 1;
    }
    return 0;
}

/* The places of a table that is read on its own; returns the number of values. */
static int place_learned(size_t *n_values, struct csv_reader *r, size_t column, struct err *e)
{
    int next = 0;

    if (!csv_is_used(r, column))
        return err_set(e, ERR_CONFIG,
                       "column %zu is learned, and can neither be left out nor be that of the groups",
                       column + 1);
    for (size_t i = 0; i < r->n_cells; i++)
        if (csv_is_used(r, i))
            r->place[i] = i == column ? CSV_TRUTH : next++;
    *n_values = (size_t)next;
    return next > 0 ? 0 : err_set(e, ERR_CONFIG, "no column of values is left");
}

/* Those of one that is read like another: the columns that are left are placed among the known ones. */
static int place_like(struct csv_reader *r, bool has_header, const struct csv_known *k,
                      struct data_warnings *w, struct err *e)
{
    struct csv_cell *cells = malloc(r->n_cells * sizeof *cells);
    int *place = malloc(r->n_cells * sizeof *place);
    struct csv_row row = {.cells = cells, .line = r->line};
    int rc = cells && place ? 0 : err_set(e, ERR_NOMEM, "no memory for %zu columns", r->n_cells);

    for (size_t i = 0; rc == 0 && i < r->n_cells; i++)
        if (csv_is_used(r, i))
            cells[row.n_cells++] = r->cells[i];
    if (rc == 0)
        rc = csv_place_known(place, &row, has_header, k, w, e);
    for (size_t i = 0, next = 0; rc == 0 && i < r->n_cells; i++)
        if (csv_is_used(r, i))
            r->place[i] = place[next++];
    free(place);
    free(cells);
    return rc;
}

static int place_known(bool *has_header, struct csv_reader *r, const struct csv_form *form,
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
int csv_find_columns(struct csv_table *t, bool *has_header, struct csv_reader *r, const struct csv_form *form,
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
        t->learned_at += csv_is_used(r, i);
    return 0;
}
