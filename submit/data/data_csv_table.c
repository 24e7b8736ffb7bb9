/* The rows of a CSV text as numbers and texts. data_csv_reader.c reads cells, data_csv_columns.c finds what
 * the columns are, data_csv_labels.c has the labels, and data_csv.c makes a data set of it. */
#include <stdlib.h>
#include <string.h>

#include "submit/data/data_csv_reader.h"
#include "submit/data/data_kind.h"
#include "submit/data/dataset.h"

enum { FIRST_VALUES = 1 << 16 /* for which there is room at first */ };

static int grow_table(struct csv_table *t, size_t *room, const struct csv_form *form, struct err *e)
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

static bool has_missing(const struct csv_reader *r)
{
    for (size_t i = 0; i < r->n_cells; i++)
        if (r->place[i] != CSV_LEFT_OUT && csv_is_missing(&r->cells[i]))
            return true;
    return false;
}

/* Counts the rows without a label or target: all of them may be. */
static bool lacks_truth(struct csv_reader *r, const struct csv_cell *c)
{
    if (!csv_is_missing(c))
        return false;
    if (r->n_lacking++ == 0)
        r->first_lacking = c->line;
    return true;
}

static int add_row(struct csv_table *t, struct csv_reader *r, const struct csv_form *form, struct err *e)
{
    float *x = t->x + t->n_rows * t->n_values;

    if (r->n_cells != r->n_columns) {
        const char *other = r->n_cells == 1 ? csv_other_separator(&r->cells[0]) : NULL;

        return err_set(e, ERR_CONFIG, "line %zu: %zu column%s%s%s, expected %zu", r->line, r->n_cells,
                       r->n_cells == 1 ? "" : "s", other ? ", or cells that are separated by " : "",
                       other ? other : "", r->n_columns);
    }
    if (form->missing == CSV_MISSING_DROP && !csv_may_lack_truth(form) && has_missing(r)) {
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
        if (!csv_is_used(r, i) || (place == CSV_TRUTH && csv_may_lack_truth(form) && lacks_truth(r, c)))
            continue;
        if (place >= 0 || form->is_target) {
            if (!csv_number(place >= 0 ? &x[place] : &t->targets[t->n_rows], c))
                return csv_not_a_number(t, r, i, form, e);
        } else if (csv_check_label(c, i + 1, form->missing, e) < 0) {
            return e->code;
        } else {
            t->texts[t->n_rows] = *c;
        }
    }
    t->n_rows++;
    return 0;
}

/* Labels or targets are there for all rows or for none. */
static int check_truth(struct csv_table *t, const struct csv_reader *r, struct err *e)
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
    struct csv_reader r = {.at = text, .end = text + len};
    size_t room = 0;
    bool has_header = false, is_auto = strcmp(form->header, "auto") == 0;
    int rc;

    *t = (struct csv_table){0};
    r.at += data_mark(text, len);
    rc = data_check_text(text, len, e) < 0 || data_check_table(text, len, e) < 0 ? e->code
                                                                                 : csv_read_row(&r, e);
    if (rc == 0)
        rc = err_set(e, ERR_CONFIG, "the file has no rows");
    if (rc > 0 && r.n_cells < 2 &&
        (!form->known || (form->known->n_values > 1 && csv_other_separator(&r.cells[0]))))
        rc = csv_one_column(&r, e);
    if (rc > 0 && r.n_cells > LAYER_VALUES_MAX)
        rc = err_set(e, ERR_CONFIG, "line %zu: more than %d columns", r.line, LAYER_VALUES_MAX);
    if (rc > 0 && csv_find_columns(t, &has_header, &r, form, w, e) < 0)
        rc = e->code;
    if (rc > 0 && has_header && !form->known) {
        csv_check_names(&r, r.learned, w);
        if (csv_take_names(t, &r, e) < 0)
            rc = e->code;
    }
    if (rc > 0 && has_header)
        rc = csv_read_row(&r, e);
    while (rc > 0) {
        bool is_guess = t->n_rows == 0 && !has_header && is_auto;

        if (t->n_rows == room && grow_table(t, &room, form, e) < 0)
            rc = e->code;
        else if (add_row(t, &r, form, e) < 0)
            rc = is_guess ? err_hint(e, "If line %zu is a header: header=yes", r.line) : e->code;
        else
            rc = csv_read_row(&r, e);
    }
    if (rc == 0 && t->n_rows == 0)
        rc = t->n_dropped > 0
                 ? err_set(e, ERR_CONFIG, "each of its %zu rows has a missing cell", t->n_dropped)
                 : err_set(e, ERR_CONFIG, "a header and no rows");
    if (rc == 0)
        rc = check_truth(t, &r, e);
    if (rc == 0 && !form->known)
        csv_check_rows(t, &r, is_auto && !has_header, form, w);
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
