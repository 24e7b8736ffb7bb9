/* Finds out whether the first row of a CSV text is its header, and which of its columns are values. A table
 * that is read like an earlier one has its columns by their names, or by their places. */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "submit/data/data_csv.h"

enum { COUNTED_MIN = 3, SPACED_MIN = 4 };

/* The first row of a table that is read like another one, without the columns that are left out. */
struct csv_row {
    const struct table_cell *cells;
    size_t n_cells, line;
};

static bool is_named(const struct table_cell *c, const char *name)
{
    return c->len == strlen(name) && memcmp(c->at, name, c->len) == 0;
}

/* True for a number, even if a float cannot hold it: inf, nan, 1e99. */
static bool is_meant_as_number(const struct table_cell *c)
{
    static const char *const texts[] = {"nan", "inf", "infinity"};
    size_t sign = c->len > 0 && (c->at[0] == '-' || c->at[0] == '+');
    double ignored;

    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (c->len == sign + strlen(texts[i]) && strncasecmp(c->at + sign, texts[i], c->len - sign) == 0)
            return true;
    return table_decimal(&ignored, c);
}

static int by_name(const void *a, const void *b)
{
    return table_compare_cells(*(const struct table_cell *const *)a, *(const struct table_cell *const *)b);
}

/* A row whose numbers count 0, 1, 2, ... is a header: pandas writes it for columns without names, also beside
 * columns with names ("0,1,2,label"). Returns how many numbers count from `first`; 0: the numbers do not
 * count. */
static size_t count_from(const struct csv_reader *r, long first)
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

/* The number of whole numbers in the row, if they ascend or descend in equal steps, as 2019, 2020, 2021 do;
 * v: the first two. 0: they do not, or there are so few that it may be chance. */
static size_t count_spaced(double v[2], const struct csv_reader *r)
{
    double x, last = 0, step = 0;
    size_t n = 0;

    for (size_t i = 0; i < r->n_cells; i++) {
        if (!is_meant_as_number(&r->cells[i]))
            continue;
        if (!table_decimal(&x, &r->cells[i]) || x != floor(x))
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
 * 0. Another row with a number is data, so that an error in it is reported; as a header it would be dropped
 * silently. */
static bool looks_like_header(const struct csv_reader *r, size_t column, const struct csv_form *form,
                              struct dataset_warnings *w)
{
    size_t n_counted = count_from(r, 0);
    double v[2] = {0, 1};
    bool has_cell_text = false;

    if (n_counted >= COUNTED_MIN) {
        dataset_warn(w,
                     "line %zu counts 0, 1, 2, ... and is taken for the header; header=no takes it for data",
                     r->line);
        return true;
    }
    if (n_counted > 1 || count_spaced(v, r) > 0)
        dataset_warn(
            w, "line %zu counts %.0f, %.0f, ... and is taken for data; header=yes takes it for the header",
            r->line, v[0], v[1]);
    for (size_t i = 0; i < r->n_cells; i++) {
        if (is_meant_as_number(&r->cells[i]))
            return false;
        has_cell_text |= (i != column || form->is_target) && r->cells[i].len > 0;
    }
    return has_cell_text;
}

/* The column of that name; n_cells: there is none. ERR_CONFIG: there are two. */
static int find_name(size_t *column, const struct csv_reader *r, const char *name, struct err *e)
{
    for (*column = 0; *column < r->n_cells && !is_named(&r->cells[*column], name);)
        ++*column;
    for (size_t i = *column + 1; i < r->n_cells; i++)
        if (is_named(&r->cells[i], name))
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
            return err_hint(e, "Did you mean \"%.*s\"?", table_shown(&r->cells[i]), r->cells[i].at);
    return e->code;
}

/* Finds the column to learn, and whether the first row is a header. If form->column is a number, it is
 * searched among the names first, because the names of a header may be numbers, and then used as a place. A
 * number beyond the last column can only be a name in the first row. */
static int choose_column(size_t *column, bool *has_header, const struct csv_reader *r,
                         const struct csv_form *form, struct dataset_warnings *w, struct err *e)
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

bool csv_is_used(const struct csv_reader *r, size_t i)
{
    return r->place[i] != CSV_LEFT_OUT && r->place[i] != CSV_GROUP;
}

/* Finds a column by its name in the header or its number from 1; *column: n_cells if there is none. */
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

/* Whether a column has a name of the known table that no other column has. */
static bool has_known_name(const struct csv_reader *r, bool has_header, const struct csv_form *form,
                           size_t column)
{
    const struct table_cell *c = &r->cells[column];
    size_t n = 0;

    if (!form->known || !has_header || names_find(form->known->names, c->at, c->len) < 0)
        return false;
    for (size_t i = 0; i < r->n_cells; i++)
        n += table_compare_cells(&r->cells[i], c) == 0;
    return n == 1;
}

/* Marks the columns of the list "A+B" as no values: CSV_LEFT_OUT or CSV_GROUP. A table that is read like
 * another one may lack them. */
static int mark_out(struct csv_reader *r, bool has_header, const struct csv_form *form, const char *list,
                    int mark, struct err *e)
{
    char copy[CSV_DROP_LEN], *rest = copy, *name;
    size_t column;

    snprintf(copy, sizeof copy, "%s", list);
    while (copy[0] && (name = strsep(&rest, "+")) != NULL) {
        if (find_column(&column, r, has_header, name, e) < 0)
            return e->code;
        /* A number is a place in the earlier table; in this one a column of a known name may have that
         * place. */
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

static int mark_both(struct csv_reader *r, bool has_header, const struct csv_form *form, struct err *e)
{
    for (size_t i = 0; i < r->n_cells; i++)
        r->place[i] = 0;
    /* Without a header, a table with no more columns than the known ones has no further columns. */
    if (form->known && !has_header && r->n_cells <= form->known->n_values + 1)
        return 0;
    return mark_out(r, has_header, form, form->drop, CSV_LEFT_OUT, e) < 0 ||
                   mark_out(r, has_header, form, form->group, CSV_GROUP, e) < 0
               ? e->code
               : 0;
}

bool csv_is_truth_name(const struct table_cell *c)
{
    static const char *const names[] = {"label", "labels", "class", "classes", "target", "targets", "y"};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (c->len == strlen(names[i]) && strncasecmp(c->at, names[i], c->len) == 0)
            return true;
    return false;
}

void csv_check_names(const struct csv_reader *r, size_t column, struct dataset_warnings *w)
{
    const struct table_cell *learned = &r->cells[column];
    struct table_cell **order = malloc(r->n_cells * sizeof *order);
    size_t n = 0;

    for (size_t i = 0; i < r->n_cells; i++)
        if (i != column && csv_is_used(r, i) && csv_is_truth_name(&r->cells[i]))
            dataset_warn(w,
                         "column %zu is called \"%.*s\" and is taken for a value; the learned column is %zu, "
                         "\"%.*s\"; "
                         "label=%zu or target=%zu learns column %zu",
                         i + 1, (int)r->cells[i].len, r->cells[i].at, column + 1, table_shown(learned),
                         learned->at, i + 1, i + 1, i + 1);
    for (size_t i = 0; order && i < r->n_cells; i++)
        if (csv_is_used(r, i))
            order[n++] = &r->cells[i];
    if (order)
        qsort(order, n, sizeof *order, by_name);
    for (size_t i = 1; i < n; i++)
        if (order[i]->len > 0 && by_name(&order[i - 1], &order[i]) == 0) {
            dataset_warn(w, "two columns are called \"%.*s\"", table_shown(order[i]), order[i]->at);
            break;
        }
    free(order);
}

int csv_take_names(struct data_table *t, const struct csv_reader *r, struct err *e)
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

/* Name i of the known columns; `skips`: without the learned one. */
static const char *known_name(const struct csv_known *k, size_t i, bool skips)
{
    return k->names->at[i + (skips && i + 1 >= k->learned_at)];
}

/* The place of known column i in a row of values. */
static int place_of(const struct csv_known *k, size_t i)
{
    return i + 1 == k->learned_at ? CSV_TRUTH : (int)(i - (i + 1 > k->learned_at));
}

/* Is it the known header, with the learned column or without it? */
static bool is_same_header(const struct csv_row *r, const struct csv_known *k)
{
    bool skips = r->n_cells == k->n_values && k->may_lack_truth;

    if (!skips && r->n_cells != k->names->n)
        return false;
    for (size_t i = 0; i < r->n_cells; i++)
        if (!is_named(&r->cells[i], known_name(k, i, skips)))
            return false;
    return true;
}

/* Are the names of all known values in the row? */
static bool is_known_header(const struct csv_row *r, const struct csv_known *k)
{
    size_t n = 0;

    if (!k->names->n)
        return false;
    for (size_t i = 0; i < r->n_cells; i++) {
        long at = names_find(k->names, r->cells[i].at, r->cells[i].len);

        n += at >= 0 && (size_t)at + 1 != k->learned_at;
    }
    return n >= k->n_values || is_same_header(r, k);
}

static int place_in_order(int *place, const struct csv_row *r, const struct csv_known *k, struct err *e)
{
    bool skips = r->n_cells == k->n_values && k->may_lack_truth;

    if (!skips && r->n_cells != k->n_values + 1)
        return err_set(e, ERR_CONFIG, "line %zu: %zu column%s, the training data has %zu%s", r->line,
                       r->n_cells, r->n_cells == 1 ? "" : "s", k->n_values + 1,
                       k->may_lack_truth ? " with the one that is learned" : "");
    for (size_t i = 0; i < r->n_cells; i++)
        place[i] = skips ? (int)i : place_of(k, i);
    return 0;
}

static int no_column(const struct csv_row *r, const struct csv_known *k, size_t i, struct err *e)
{
    err_set(e, ERR_CONFIG, "line %zu: no column is called \"%.60s\"; the training data has one", r->line,
            k->names->at[i]);
    return i + 1 == k->learned_at
               ? err_hint(
                     e,
                     "A test half has the column that is learned. --data FILE divides one file; job_submit "
                     "predict takes files without it.")
               : e->code;
}

/* Gives each column the place of the known column with its name; n[i]: the number of columns with the name of
 * known column i, for all_placed(). */
static void place_names(int *place, size_t *n, const struct csv_row *r, const struct csv_known *k)
{
    for (size_t i = 0; i < r->n_cells; i++) {
        long at = names_find(k->names, r->cells[i].at, r->cells[i].len);

        place[i] = at < 0 ? CSV_LEFT_OUT : place_of(k, (size_t)at);
        if (at >= 0)
            n[at]++;
    }
}

static int all_placed(const size_t *n, const struct csv_row *r, const struct csv_known *k, struct err *e)
{
    for (size_t i = 0; i < k->names->n; i++) {
        if (n[i] > 1)
            return err_set(e, ERR_CONFIG, "line %zu: %zu columns are called \"%.60s\"", r->line, n[i],
                           k->names->at[i]);
        if (n[i] == 0 && (i + 1 != k->learned_at || !k->may_lack_truth))
            return no_column(r, k, i, e);
    }
    return 0;
}

static int place_by_name(int *place, const struct csv_row *r, const struct csv_known *k,
                         struct dataset_warnings *w, struct err *e)
{
    size_t n_left_out = 0, last = 0;
    size_t *n;
    int rc;

    if (!names_are_unique(k->names))
        return err_set(
            e, ERR_CONFIG,
            "line %zu: the columns are not those of the training data in their order, and cannot be found by "
            "their names, because two columns of the training data have the same name",
            r->line);
    n = calloc(k->names->n, sizeof *n);
    if (!n)
        return err_set(e, ERR_NOMEM, "no memory for %zu columns", k->names->n);
    place_names(place, n, r, k);
    rc = all_placed(n, r, k, e);
    free(n);
    if (rc < 0)
        return rc;
    for (size_t i = 0; i < r->n_cells; i++)
        if (place[i] == CSV_LEFT_OUT) {
            n_left_out++;
            last = i;
        }
    if (n_left_out == 1)
        dataset_warn(w, "column \"%.*s\" is left out: the training data has no column of that name",
                     (int)(r->cells[last].len < 60 ? r->cells[last].len : 60), r->cells[last].at);
    else if (n_left_out > 1)
        dataset_warn(
            w, "%zu columns, \"%.*s\" the last one, are left out: the training data has none of their names",
            n_left_out, (int)(r->cells[last].len < 60 ? r->cells[last].len : 60), r->cells[last].at);
    return 0;
}

/* Sets place, (n_cells), from the table's first row; is_header: that row is the header. k->learned_at is not
 * 0. */
static int place_like_known(int *place, const struct csv_row *r, bool is_header, const struct csv_known *k,
                            struct dataset_warnings *w, struct err *e)
{
    if (!k->names->n || (is_header && is_same_header(r, k)))
        return place_in_order(place, r, k, e);
    if (is_header)
        return place_by_name(place, r, k, w, e);
    if (place_in_order(place, r, k, e) < 0)
        return e->code;
    dataset_warn(w,
                 "the file has no header, so its columns are taken to be in the order of the training data");
    return 0;
}

/* Sets the places in a table that is read on its own. */
static int place_own_columns(size_t *n_values, struct csv_reader *r, size_t column, struct err *e)
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

/* Sets the places in a table that is read like another one: those of the columns that are used. */
static int place_used_columns(struct csv_reader *r, bool has_header, const struct csv_known *k,
                              struct dataset_warnings *w, struct err *e)
{
    struct table_cell *cells = malloc(r->n_cells * sizeof *cells);
    int *place = malloc(r->n_cells * sizeof *place);
    struct csv_row row = {.cells = cells, .line = r->line};
    int rc = cells && place ? 0 : err_set(e, ERR_NOMEM, "no memory for %zu columns", r->n_cells);

    for (size_t i = 0; rc == 0 && i < r->n_cells; i++)
        if (csv_is_used(r, i))
            cells[row.n_cells++] = r->cells[i];
    if (rc == 0)
        rc = place_like_known(place, &row, has_header, k, w, e);
    for (size_t i = 0, next = 0; rc == 0 && i < r->n_cells; i++)
        if (csv_is_used(r, i))
            r->place[i] = place[next++];
    free(place);
    free(cells);
    return rc;
}

static int find_known_columns(bool *has_header, struct csv_reader *r, const struct csv_form *form,
                              struct dataset_warnings *w, struct err *e)
{
    const struct csv_row row = {.cells = r->cells, .n_cells = r->n_cells, .line = r->line};
    const struct csv_known *k = form->known;
    size_t column = r->n_cells == k->n_values + 1 ? k->learned_at - 1 : r->n_cells, n_values;

    if (k->learned_at == 0 && r->n_cells == k->n_values + 1)
        return choose_column(&column, has_header, r, form, w, e) < 0 ||
                       mark_both(r, *has_header, form, e) < 0 ||
                       place_own_columns(&n_values, r, column, e) < 0
                   ? e->code
                   : 0;
    *has_header = strcmp(form->header, "yes") == 0 ||
                  (strcmp(form->header, "auto") == 0 &&
                   (is_known_header(&row, k) || looks_like_header(r, column, form, w)));
    if (!*has_header && r->n_cells <= k->n_values + 1 && (form->drop[0] || form->group[0]))
        dataset_warn(
            w,
            "the file has no header, and no more columns than the training data without those of drop= and "
            "group=: no column is left out");
    return mark_both(r, *has_header, form, e) < 0 ? e->code : place_used_columns(r, *has_header, k, w, e);
}

int csv_find_columns(struct data_table *t, bool *has_header, struct csv_reader *r,
                     const struct csv_form *form, struct dataset_warnings *w, struct err *e)
{
    size_t column = 0;

    r->n_columns = r->n_cells;
    r->place = malloc(r->n_cells * sizeof *r->place);
    if (!r->place)
        return err_set(e, ERR_NOMEM, "no memory for %zu columns", r->n_cells);
    if (form->known) {
        t->n_values = form->known->n_values;
        return find_known_columns(has_header, r, form, w, e);
    }
    if (choose_column(&column, has_header, r, form, w, e) < 0 || mark_both(r, *has_header, form, e) < 0 ||
        place_own_columns(&t->n_values, r, column, e) < 0)
        return e->code;
    r->learned = column;
    for (size_t i = 0; i <= column; i++)
        t->learned_at += csv_is_used(r, i);
    return 0;
}
