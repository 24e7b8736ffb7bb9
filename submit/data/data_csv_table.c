/* The cells, rows and values of a CSV text. data_csv_columns.c finds what the columns are. */
#include <stdlib.h>
#include <string.h>

#include "submit/data/data_csv.h"
#include "submit/data/data_file.h"

enum { FIRST_VALUES = 1 << 16 /* values for which there is memory at first */ };

/* Skips the end of a cell: a comma (true: another cell follows), or the end of the line or text. */
static bool more_cells(struct csv_reader *r)
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

static bool ends_cell(const struct csv_reader *r)
{
    return r->at == r->end || *r->at == ',' || *r->at == '\n' ||
           (*r->at == '\r' && r->end - r->at >= 2 && r->at[1] == '\n');
}

/* Removes the quotes, and replaces doubled quotes by one; a quoted cell may contain line ends. */
static int read_quoted(struct csv_reader *r, struct table_cell *c, struct err *e)
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

static int read_plain(struct csv_reader *r, struct table_cell *c, struct err *e)
{
    c->at = r->at;
    for (; !ends_cell(r); r->at++)
        if (*r->at == '"' || *r->at == '\0' || *r->at == '\r')
            return err_set(e, ERR_CONFIG, "line %zu, column %zu: %s inside a cell", r->line, r->n_cells + 1,
                           *r->at == '"' ? "a quote" : "a control character");
    c->len = (size_t)(r->at - c->at);
    return 0;
}

static void trim(struct table_cell *c)
{
    while (c->len > 0 && (c->at[0] == ' ' || c->at[0] == '\t')) {
        c->at++;
        c->len--;
    }
    while (c->len > 0 && (c->at[c->len - 1] == ' ' || c->at[c->len - 1] == '\t'))
        c->len--;
}

static void skip_empty_lines(struct csv_reader *r)
{
    while (r->at < r->end &&
           (*r->at == '\n' || (*r->at == '\r' && r->end - r->at >= 2 && r->at[1] == '\n'))) {
        r->at += *r->at == '\r' ? 2 : 1;
        r->n_seen++;
    }
}

/* Reads the next row that is not empty. Returns 1, or 0 at the end of the text. */
static int read_row(struct csv_reader *r, struct err *e)
{
    bool more = true;

    skip_empty_lines(r);
    r->line = r->n_seen + 1;
    if (r->at == r->end)
        return 0;
    for (r->n_cells = 0; more; r->n_cells++) {
        struct table_cell *c;

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

static int grow_table(struct data_table *t, size_t *room, const struct csv_form *form, struct err *e)
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
        if (r->place[i] != CSV_LEFT_OUT && table_is_missing(&r->cells[i]))
            return true;
    return false;
}

/* Counts the rows without a label or target: all rows may lack it. */
static bool lacks_truth(struct csv_reader *r, const struct table_cell *c)
{
    if (!table_is_missing(c))
        return false;
    if (r->n_lacking++ == 0)
        r->first_lacking = c->line;
    return true;
}

static int add_row(struct data_table *t, struct csv_reader *r, const struct csv_form *form, struct err *e)
{
    float *x = t->x + t->n_rows * t->n_values;

    if (r->n_cells != r->n_columns) {
        const char *other = r->n_cells == 1 ? csv_other_separator(&r->cells[0]) : NULL;

        return err_set(e, ERR_CONFIG, "line %zu: %zu column%s%s%s, expected %zu", r->line, r->n_cells,
                       r->n_cells == 1 ? "" : "s", other ? ", or cells that are separated by " : "",
                       other ? other : "", r->n_columns);
    }
    if (form->missing == TABLE_MISSING_DROP && !csv_may_lack_truth(form) && has_missing(r)) {
        t->n_dropped++;
        return 0;
    }
    for (size_t i = 0; i < r->n_cells; i++) {
        const struct table_cell *c = &r->cells[i];
        int place = r->place[i];

        if (place == CSV_GROUP && table_is_missing(c))
            return err_set(e, ERR_CONFIG, "line %zu, column %zu: the group is missing", c->line, i + 1);
        if (place == CSV_GROUP)
            t->groups[t->n_rows] = *c;
        if (!csv_is_used(r, i) || (place == CSV_TRUTH && csv_may_lack_truth(form) && lacks_truth(r, c)))
            continue;
        if (place >= 0 || form->is_target) {
            if (!table_number(place >= 0 ? &x[place] : &t->targets[t->n_rows], c))
                return csv_not_a_number(t, r, i, form, e);
        } else if (table_check_label(c, i + 1, form->missing, e) < 0) {
            return e->code;
        } else {
            t->texts[t->n_rows] = *c;
        }
    }
    t->n_rows++;
    return 0;
}

/* Either all rows have a label or target, or none has. */
static int check_truth(struct data_table *t, const struct csv_reader *r, struct err *e)
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
    return err_hint(e, "To predict rows, leave out that column, or leave it empty in all of them.");
}

int csv_parse(struct data_table *t, char *text, size_t len, const struct csv_form *form,
              struct dataset_warnings *w, struct err *e)
{
    struct csv_reader r = {.at = text, .end = text + len};
    size_t room = 0;
    bool has_header = false, is_auto = strcmp(form->header, "auto") == 0;
    int rc;

    *t = (struct data_table){0};
    r.at += data_mark(text, len);
    rc = data_check_text(text, len, e) < 0 || data_check_table(text, len, e) < 0 ? e->code : read_row(&r, e);
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
        rc = read_row(&r, e);
    while (rc > 0) {
        bool is_guess = t->n_rows == 0 && !has_header && is_auto;

        if (t->n_rows == room && grow_table(t, &room, form, e) < 0)
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
        csv_check_rows(t, &r, is_auto && !has_header, form, w);
    if (rc == 0 && t->n_dropped > 0)
        dataset_warn(w, "%zu of %zu rows have a missing cell and are left out", t->n_dropped,
                     t->n_rows + t->n_dropped);
    free(r.cells);
    free(r.place);
    if (rc < 0)
        table_clear(t);
    return rc;
}
