/* Errors, hints and warnings about a CSV text that is not as expected: cells that are no numbers, other
 * separators, columns and a first line that may be misunderstood. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "submit/data/data_csv.h"

enum { ROWS_COUNTED_MIN = 3, ROWS_SPACED_MIN = 10, COLUMNS_SHOWN = 3 };

/* "Unnamed: 0", ...: pandas gives such names to columns that it has read without a name. */
static bool is_no_name(const char *name)
{
    return !name[0] || strncmp(name, "Unnamed: ", 9) == 0;
}

bool csv_may_lack_truth(const struct csv_form *form)
{
    return form->known && form->known->may_lack_truth;
}

/* The name of a column that is used; NULL: there is no header. */
static const char *name_of(const struct data_table *t, const struct csv_reader *r, size_t column)
{
    const char *name = t->columns;

    for (size_t i = 0; name && i < column; i++)
        if (csv_is_used(r, i))
            name += strlen(name) + 1;
    return name;
}

/* Whether drop= finds the column by its name. */
static bool is_name_for_drop(const struct data_table *t, const struct csv_reader *r, const char *name)
{
    const char *other = t->columns;
    size_t n = 0;

    if (!name || !name[0] || strpbrk(name, "+,'\"") || strspn(name, "0123456789") == strlen(name))
        return false;
    for (size_t i = 0; i < r->n_cells; i++)
        if (csv_is_used(r, i)) {
            n += strcmp(other, name) == 0;
            other += strlen(other) + 1;
        }
    return n == 1;
}

/* Appends a column to the list of drop=, by its name, or by its number if drop= does not find the name.
 * Returns false if there is no more room. */
static bool list_column(char list[CSV_DROP_LEN], const struct data_table *t, const struct csv_reader *r,
                        size_t i)
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

/* The hint about columns of text: learn another column, or leave out all columns that are no numbers in this
 * row. */
static int hint_text(const struct data_table *t, const struct csv_reader *r, const struct csv_form *form,
                     struct err *e)
{
    const char *name = form->column[0] ? NULL : t->columns;
    size_t n_values = 0, n_texts = 0;
    char list[CSV_DROP_LEN];
    float ignored;

    for (size_t i = 0; name && i < r->n_cells; i++) {
        const struct table_cell c = {.at = name, .len = strlen(name)};

        if (r->place[i] >= 0 && csv_is_truth_name(&c))
            return err_hint(e, "The last column is learned; label=%s learns column %zu.", name, i + 1);
        if (csv_is_used(r, i))
            name += c.len + 1;
    }
    for (size_t i = 0; i < r->n_cells; i++) {
        n_values += r->place[i] >= 0;
        n_texts += r->place[i] >= 0 && !table_is_missing(&r->cells[i]) &&
                   !table_number(&ignored, &r->cells[i]);
    }
    if (n_texts > 1 && n_texts == n_values)
        return err_hint(
            e, "No value of this line is a number. If it is a second header, or a line of units, remove it; "
               "pandas.get_dummies() makes numbers of text.");
    snprintf(list, sizeof list, "%s", form->drop);
    for (size_t i = 0; i < r->n_cells; i++)
        if (r->place[i] >= 0 && !table_is_missing(&r->cells[i]) && !table_number(&ignored, &r->cells[i]) &&
            !list_column(list, t, r, i))
            break;
    return err_hint(e, "drop=%s leaves columns of text out; pandas.get_dummies() makes numbers of them.",
                    list);
}

static bool is_made_of(const struct table_cell *c, const char *characters)
{
    for (size_t i = 0; i < c->len; i++)
        if (!c->at[i] || !strchr(characters, c->at[i]))
            return false;
    return true;
}

int csv_not_a_number(const struct data_table *t, const struct csv_reader *r, size_t i,
                     const struct csv_form *form, struct err *e)
{
    const struct table_cell *c = &r->cells[i];
    const char *name = form->known ? NULL : name_of(t, r, i);
    char at[2 * TABLE_SHOWN + 64], list[CSV_DROP_LEN];

    snprintf(at, sizeof at, "line %zu, column %zu", c->line, i + 1);
    if (name && name[0])
        snprintf(at + strlen(at), sizeof at - strlen(at), ", \"%.*s\"", TABLE_SHOWN, name);
    if (memchr(c->at, ';', c->len))
        return err_set(e, ERR_CONFIG, "%s: \"%.*s\": its cells are separated by semicolons, expected commas",
                       at, table_shown(c), c->at);
    if (c->len == 0)
        err_set(e, ERR_CONFIG, "%s: empty, expected a number", at);
    else
        err_set(e, ERR_CONFIG, "%s: \"%.*s\" is not a number that a float can hold", at, table_shown(c),
                c->at);
    if (table_is_missing(c) && csv_may_lack_truth(form))
        return err_hint(e, "Every row is predicted, so each needs all its values, also with missing=drop.");
    if (form->known)
        return e->code;
    if (r->place[i] < 0)
        return table_is_missing(c) ? err_hint(e, "missing=drop leaves out rows with a missing cell.")
                                   : err_hint(e, "target= learns numbers; label= takes texts for classes.");
    if (memchr(c->at, ',', c->len) && is_made_of(c, "0123456789,.+- "))
        return err_hint(e,
                        "pandas.read_csv(FILE, decimal=\",\"), or thousands=\",\", reads such numbers, and "
                        ".to_csv(\"NEW.csv\", index=False) writes them as expected.");
    if (!table_is_missing(c))
        return hint_text(t, r, form, e);
    snprintf(list, sizeof list, "%s", form->drop);
    list_column(list, t, r, i);
    return err_hint(e, "missing=drop leaves out rows with a missing cell, drop=%s this column.", list);
}

const char *csv_other_separator(const struct table_cell *c)
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

/* A line with a single column has most often another separator. */
int csv_one_column(const struct csv_reader *r, struct err *e)
{
    const char *other = csv_other_separator(&r->cells[0]);

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

/* Whether the values of a column count the rows, from 0 or 1, or from any whole number in equal steps. */
static bool counts_rows(const struct data_table *t, size_t value)
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
    return table_compare_cells(a, b);
}

/* Whether the label of the first row may be the name of the column: no other row has it, and, if it is a
 * number, each other label is that of several rows. */
static bool is_label_of_header(const struct data_table *t)
{
    struct table_cell *rest;
    bool are_others_shared = true;
    double ignored;

    if (t->n_rows < ROWS_COUNTED_MIN)
        return false;
    for (size_t i = 1; i < t->n_rows; i++)
        if (table_compare_cells(&t->texts[0], &t->texts[i]) == 0)
            return false;
    if (!table_double(&ignored, &t->texts[0]))
        return true;
    rest = malloc(t->n_rows * sizeof *rest);
    if (!rest)
        return false;
    memcpy(rest, t->texts + 1, (t->n_rows - 1) * sizeof *rest);
    qsort(rest, t->n_rows - 1, sizeof *rest, by_text);
    for (size_t i = 0; i + 1 < t->n_rows; i++)
        are_others_shared &= (i > 0 && table_compare_cells(&rest[i - 1], &rest[i]) == 0) ||
                             (i + 2 < t->n_rows && table_compare_cells(&rest[i], &rest[i + 1]) == 0);
    free(rest);
    return are_others_shared;
}

/* Warns of columns that may be row numbers, as pandas and databases write them. */
static void check_columns(const struct data_table *t, const struct csv_reader *r, struct dataset_warnings *w)
{
    const char *next = t->columns, *name;
    size_t n_shown = 0;

    for (size_t i = 0; i < r->n_columns && n_shown < COLUMNS_SHOWN; i++) {
        bool is_value = r->place[i] >= 0, is_unnamed, is_counted;

        name = next;
        if (next && csv_is_used(r, i))
            next += strlen(next) + 1;
        is_unnamed = is_value && name && is_no_name(name);
        is_counted = is_value && counts_rows(t, (size_t)r->place[i]);
        if (!is_counted && !is_unnamed)
            continue;
        n_shown++;
        dataset_warn(w,
                     "column %zu %s%s%s and is taken for a value, as any other: a model may learn the order "
                     "of the rows from "
                     "it; drop=%zu leaves it out, and pandas does not write it with to_csv(index=False)",
                     i + 1, is_unnamed ? "has no name" : "", is_unnamed && is_counted ? ", " : "",
                     is_counted ? "counts the rows" : "", i + 1);
    }
}

void csv_check_rows(const struct data_table *t, const struct csv_reader *r, bool has_guessed,
                    const struct csv_form *form, struct dataset_warnings *w)
{
    check_columns(t, r, w);
    if (has_guessed && !form->is_target && is_label_of_header(t))
        dataset_warn(
            w,
            "line %zu is taken for data, but no other row has its label, \"%.*s\"; header=yes takes the line "
            "for the header",
            t->texts[0].line, table_shown(&t->texts[0]), t->texts[0].at);
}
