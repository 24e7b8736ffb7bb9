#include "submit/terminal/text_table.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/utf8.h"

static void add_cell(struct text_table *t, const char *fmt, va_list ap) __attribute__((format(printf, 2, 0)));
static void add_cell(struct text_table *t, const char *fmt, va_list ap)
{
    char *cell = NULL, **cells;
    int n = vasprintf(&cell, fmt, ap);

    if (n >= 0 && t->n_cells == t->n_held) {
        cells = realloc(t->cells, (2 * t->n_held + 64) * sizeof *cells);
        t->cells = cells ? cells : t->cells;
        t->n_held = cells ? 2 * t->n_held + 64 : t->n_held;
    }
    if (n < 0 || t->n_cells == t->n_held) {
        if (n >= 0)
            free(cell);
        t->has_failed = true;
        return;
    }
    utf8_clean(cell, (size_t)n, false);
    t->cells[t->n_cells++] = cell;
}

void text_table_column(struct text_table *t, bool is_number, const char *fmt, ...)
{
    va_list ap;

    if (t->n_columns < TEXT_TABLE_COLUMNS)
        t->is_number[t->n_columns] = is_number;
    t->n_columns++;
    va_start(ap, fmt);
    add_cell(t, fmt, ap);
    va_end(ap);
}

void text_table_cell(struct text_table *t, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    add_cell(t, fmt, ap);
    va_end(ap);
}

/* In characters; wide ones count as one. */
static size_t width_of(const char *text)
{
    size_t n = 0;

    for (; *text; text++)
        n += ((unsigned char)*text & 0xc0) != 0x80;
    return n;
}

int text_table_print(const struct text_table *t, struct err *e)
{
    size_t width[TEXT_TABLE_COLUMNS] = {0};

    if (t->has_failed)
        return err_set(e, ERR_NOMEM, "no memory for the table");
    if (t->n_columns > TEXT_TABLE_COLUMNS)
        return err_set(e, ERR_INTERNAL, "a table of %zu columns", t->n_columns);
    for (size_t i = 0; i < t->n_cells; i++)
        if (width_of(t->cells[i]) > width[i % t->n_columns])
            width[i % t->n_columns] = width_of(t->cells[i]);
    for (size_t i = 0; i < t->n_cells; i++) {
        size_t column = i % t->n_columns;
        bool is_last = column + 1 == t->n_columns;
        int pad = (int)(width[column] - width_of(t->cells[i]));

        if (t->is_number[column])
            printf("%*s%s%s", pad, "", t->cells[i], is_last ? "\n" : "  ");
        else
            printf("%s%*s%s", t->cells[i], is_last ? 0 : pad, "", is_last ? "\n" : "  ");
    }
    return 0;
}

void text_table_clear(struct text_table *t)
{
    for (size_t i = 0; i < t->n_cells; i++)
        free(t->cells[i]);
    free(t->cells);
    *t = (struct text_table){0};
}
