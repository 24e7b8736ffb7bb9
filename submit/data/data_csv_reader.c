#include "submit/data/data_csv_reader.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { NUMBER_LEN = 63 };

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

/* Removes the quotes and turns doubled ones into one; a quoted cell may contain line ends. */
static int read_quoted(struct csv_reader *r, struct csv_cell *c, struct err *e)
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

static int read_plain(struct csv_reader *r, struct csv_cell *c, struct err *e)
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

static void skip_empty_lines(struct csv_reader *r)
{
    while (r->at < r->end &&
           (*r->at == '\n' || (*r->at == '\r' && r->end - r->at >= 2 && r->at[1] == '\n'))) {
        r->at += *r->at == '\r' ? 2 : 1;
        r->n_seen++;
    }
}

/* Reads the next row that is not empty: returns 1, or 0 at the end of the text. */
int csv_read_row(struct csv_reader *r, struct err *e)
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
bool csv_decimal(double *out, const struct csv_cell *c)
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
    return csv_decimal(out, c) && isfinite((float)*out);
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

int csv_shown(const struct csv_cell *c)
{
    return (int)(c->len < CSV_NAME_SHOWN ? c->len : CSV_NAME_SHOWN);
}

bool csv_is_named(const struct csv_cell *c, const char *name)
{
    return c->len == strlen(name) && memcmp(c->at, name, c->len) == 0;
}

/* True for a number, even if a float cannot hold it: inf, nan, 1e99. */
bool csv_is_meant_as_number(const struct csv_cell *c)
{
    static const char *const texts[] = {"nan", "inf", "infinity"};
    size_t sign = c->len > 0 && (c->at[0] == '-' || c->at[0] == '+');
    double ignored;

    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (c->len == sign + strlen(texts[i]) && strncasecmp(c->at + sign, texts[i], c->len - sign) == 0)
            return true;
    return csv_decimal(&ignored, c);
}
