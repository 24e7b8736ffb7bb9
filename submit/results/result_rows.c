#include "submit/results/result_rows.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shared/file.h"
#include "shared/record_scan.h"
#include "submit/files/untrusted_folder.h"

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

/* A row, with its line feed; an empty one at the end, where an unfinished row is left out. */
static int next_row(char line[RECORD_SCAN_ROW], FILE *in, const char *path, struct err *e)
{
    line[0] = '\0';
    if (!fgets(line, RECORD_SCAN_ROW, in) || strchr(line, '\n'))
        return ferror(in) ? err_errno(e, ERR_IO, "%s", path) : 0;
    line[0] = '\0';
    return feof(in) ? 0
                    : err_set(e, ERR_PROTOCOL, "%s: a row has more than %d bytes, or a zero byte", path,
                              RECORD_SCAN_ROW - 2);
}

static int read_rows(FILE *in, const struct artifact *a, const char *path, rows_use *use, void *with,
                     struct err *e)
{
    struct record_cell cells[RECORD_COLUMNS_MAX], own[RECORD_COLUMNS_MAX];
    struct rows r = {.n = 0};
    char line[RECORD_SCAN_ROW];
    int rc;

    while ((rc = next_row(line, in, path, e)) == 0 && line[0]) {
        size_t len = strlen(line) - 1;

        if (r.n == 0) {
            rc = read_header(&r, a, line, len, path, e);
        } else if (records_split(cells, line, len) == r.width) {
            arrange(own, &r, cells);
            rc = use(own, with, e);
        }
        if (rc < 0)
            break;
    }
    return rc;
}

int rows_each(const char *folder, const struct artifact *a, rows_use *use, void *with, struct err *e)
{
    char path[PATH_MAX];
    uint64_t bytes;
    FILE *in;
    int dir, fd, rc;

    if (file_join(path, sizeof path, folder, a->path, e) < 0 || folder_open(&dir, folder, e) < 0)
        return e->code;
    rc = folder_file(&fd, &bytes, dir, a->path, e);
    close(dir);
    if (rc < 0)
        return rc == ERR_NOT_FOUND ? 0 : rc;
    in = fdopen(fd, "r");
    if (!in) {
        close(fd);
        return err_set(e, ERR_NOMEM, "no memory to read %s", path);
    }
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
