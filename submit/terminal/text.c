#include "submit/terminal/text.h"

#include <ctype.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "shared/base/utf8.h"

void text_print(const char *fmt, ...)
{
    char *s = NULL;
    va_list ap;
    int n;

    va_start(ap, fmt);
    n = vasprintf(&s, fmt, ap);
    va_end(ap);
    if (n < 0)
        return;
    utf8_clean(s, (size_t)n, true);
    fputs(s, stdout);
    free(s);
}

const char *text_stop(const char *text)
{
    size_t n = strlen(text);

    return n > 0 && strchr(".?!", text[n - 1]) ? "" : ".";
}

const char *text_shell_quote(char *out, size_t size, const char *text)
{
    bool is_plain = text[0] != '\0';
    size_t n = 0;

    for (const char *c = text; *c; c++)
        is_plain = is_plain &&
                   (isalnum((unsigned char)*c) || strchr("_@%+=:,./-", *c) || (unsigned char)*c >= 0x80);
    if (is_plain) {
        snprintf(out, size, "%s", text);
        return out;
    }
    n += (size_t)snprintf(out, size, "'");
    for (const char *c = text; *c && n + 6 <= size; c++)
        n += (size_t)snprintf(out + n, size - n, *c == '\'' ? "'\\''" : "%c", *c);
    snprintf(out + n, size - n, "'");
    return out;
}

const char *text_bytes(char out[TEXT_AMOUNT], uint64_t bytes)
{
    static const char *const unit[] = {"B", "kB", "MB", "GB", "TB", "PB", "EB"};
    double v = (double)bytes;
    int u = 0;

    for (; v >= 999.5; u++)
        v /= 1000;
    snprintf(out, TEXT_AMOUNT,
             u == 0      ? "%.0f %s"
             : v < 9.995 ? "%.2f %s"
             : v < 99.95 ? "%.1f %s"
                         : "%.0f %s",
             v, unit[u]);
    return out;
}

const char *text_result(char out[TEXT_AMOUNT], double v)
{
    if (isfinite(v))
        snprintf(out, TEXT_AMOUNT, fabs(v) < 1e6 ? "%.4f" : "%.4g", v);
    else
        snprintf(out, TEXT_AMOUNT, "-");
    return out;
}

const char *text_seconds(char out[TEXT_AMOUNT], double s)
{
    if (s < 0)
        s = 0;
    if (s < 119.5)
        snprintf(out, TEXT_AMOUNT, s < 9.995 ? "%.2f s" : "%.1f s", s);
    else if (s < 7200)
        snprintf(out, TEXT_AMOUNT, "%d min %02d s", (int)s / 60, (int)s % 60);
    else
        snprintf(out, TEXT_AMOUNT, s < 3.6e9 ? "%.1f h" : "over %.0f h", s < 3.6e9 ? s / 3600 : 1e6);
    return out;
}

const char *text_hour(char out[TEXT_AMOUNT], double wall)
{
    time_t t = (time_t)wall;
    struct tm tm;

    localtime_r(&t, &tm);
    strftime(out, TEXT_AMOUNT, "%H:%M:%S", &tm);
    return out;
}

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

/* In characters; one that is two columns wide counts as one. */
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
