#include "submit/results/rows.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/file.h"

/* Where the file has each column of the artifact. */
struct rows {
    int place[RECORD_COLUMNS_MAX]; /* -1: nowhere */
    size_t n, width;               /* columns of the artifact, of the file */
};

static bool is_text(const struct record_cell *c, const char *text)
{
    return c->len == strlen(text) && memcmp(c->text, text, c->len) == 0;
}

static int read_header(struct rows *r, const struct artifact *a, const char *line, size_t len,
                       const char *path, struct err *e)
{
    struct record_cell names[RECORD_COLUMNS_MAX];

    r->n = records_width(a);
    r->width = records_split(names, line, len);
    for (size_t i = 0; i < r->n; i++) {
        r->place[i] = -1;
        for (size_t k = 0; k < r->width; k++)
            if (is_text(&names[k], a->columns[i].name))
                r->place[i] = (int)k;
    }
    return r->place[records_column(a, "node")] >= 0
               ? 0
               : err_set(e, ERR_PROTOCOL, "%s: its first line has no column \"node\"", path);
}

static void arrange(struct record_cell out[RECORD_COLUMNS_MAX], const struct rows *r,
                    const struct record_cell *cells)
{
    for (size_t i = 0; i < r->n; i++)
        out[i] = r->place[i] < 0 ? (struct record_cell){"", 0} : cells[r->place[i]];
}

static int read_rows(FILE *in, const struct artifact *a, const char *path, rows_use *use, void *with,
                     struct err *e)
{
    struct record_cell cells[RECORD_COLUMNS_MAX], own[RECORD_COLUMNS_MAX];
    struct rows r = {.n = 0};
    char *line = NULL;
    size_t size = 0;
    ssize_t len;
    int rc = 0;

    while (rc == 0 && (len = getline(&line, &size, in)) > 0) {
        if (line[len - 1] != '\n')
            continue;
        if (r.n == 0) {
            rc = read_header(&r, a, line, (size_t)len - 1, path, e);
        } else if (records_split(cells, line, (size_t)len - 1) == r.width) {
            arrange(own, &r, cells);
            rc = use(own, with, e);
        }
    }
    free(line);
    return rc == 0 && ferror(in) ? err_errno(e, ERR_IO, "%s", path) : rc;
}

int rows_each(const char *folder, const struct artifact *a, rows_use *use, void *with, struct err *e)
{
    char path[PATH_MAX];
    FILE *in;
    int rc;

    if (file_join(path, sizeof path, folder, a->path, e) < 0)
        return e->code;
    in = fopen(path, "re");
    if (!in)
        return errno == ENOENT ? 0 : err_errno(e, ERR_IO, "%s", path);
    rc = read_rows(in, a, path, use, with, e);
    fclose(in);
    return rc;
}

double rows_number(const struct record_cell *cell)
{
    char text[40], *end;
    double v;

    if (cell->len == 0 || cell->len >= sizeof text)
        return NAN;
    memcpy(text, cell->text, cell->len);
    text[cell->len] = '\0';
    v = strtod(text, &end);
    return *end ? NAN : v;
}
