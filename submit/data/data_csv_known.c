/* The columns of a table that is read like one before it: by their names, or by their places. */
#include <stdlib.h>
#include <string.h>

#include "submit/data/data_csv_parser.h"

static bool is_named(const struct csv_cell *c, const char *name)
{
    return c->len == strlen(name) && memcmp(c->at, name, c->len) == 0;
}

/* Name i of the known columns; the learned one does not count if `skips`. */
static const char *known_name(const struct csv_known *k, size_t i, bool skips)
{
    return k->names->at[i + (skips && i + 1 >= k->learned_at)];
}

/* The place of known column i. */
static int place_of(const struct csv_known *k, size_t i)
{
    return i + 1 == k->learned_at ? CSV_TRUTH : (int)(i - (i + 1 > k->learned_at));
}

/* Is it the header as it was, with the learned column or without it? */
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

bool csv_is_known_header(const struct csv_row *r, const struct csv_known *k)
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

/* Gives each column the place of the known one of its name, which all_placed() checks by n[i], the number
 * of columns with the name of known column i. */
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
                         struct data_warnings *w, struct err *e)
{
    size_t n_left_out = 0, last = 0;
    size_t *n;
    int rc;

    if (!names_are_unique(k->names))
        return err_set(
            e, ERR_CONFIG,
            "line %zu: the columns are not those of the training data in the same order, and two of "
            "these have the same name, so that they cannot be found by it",
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
        data_warn(w, "column \"%.*s\" is left out: the training data has no column of that name",
                  (int)(r->cells[last].len < 60 ? r->cells[last].len : 60), r->cells[last].at);
    else if (n_left_out > 1)
        data_warn(
            w, "%zu columns, \"%.*s\" the last one, are left out: the training data has none of their names",
            n_left_out, (int)(r->cells[last].len < 60 ? r->cells[last].len : 60), r->cells[last].at);
    return 0;
}

int csv_place_known(int *place, const struct csv_row *r, bool is_header, const struct csv_known *k,
                    struct data_warnings *w, struct err *e)
{
    if (!k->names->n || (is_header && is_same_header(r, k)))
        return place_in_order(place, r, k, e);
    if (is_header)
        return place_by_name(place, r, k, w, e);
    if (place_in_order(place, r, k, e) < 0)
        return e->code;
    data_warn(w, "the file has no header, so its columns are taken to be in the order of the training data");
    return 0;
}
