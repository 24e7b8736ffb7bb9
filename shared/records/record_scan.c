#include "shared/records/record_scan.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shared/records/record.h"

enum { CHUNK = 1 << 20, NONE = 0xff };

struct reader {
    const struct record_scan *s;
    bool has_header;
    size_t n_columns, width;             /* of the file; up to the last chosen one */
    unsigned char to[RECORD_SCAN_WIDTH]; /* of each column of the file: its index in s->columns, or NONE */
};

static int read_header(struct reader *r, const char *line, size_t len, struct err *e)
{
    const struct record_scan *s = r->s;
    bool found[RECORD_SCAN_COLUMNS] = {false};
    size_t n = 0;

    memset(r->to, NONE, sizeof r->to);
    for (size_t at = 0; at <= len; n++) {
        const char *comma = memchr(line + at, ',', len - at);
        size_t name_len = comma ? (size_t)(comma - line) - at : len - at;

        if (n == RECORD_SCAN_WIDTH)
            return err_set(e, ERR_PROTOCOL, "%s: more than %d columns", s->what, RECORD_SCAN_WIDTH);
        for (size_t k = 0; k < s->n; k++) {
            if (found[k] || strlen(s->columns[k]) != name_len ||
                memcmp(s->columns[k], line + at, name_len) != 0)
                continue;
            found[k] = true;
            r->to[n] = (unsigned char)k;
            r->width = n + 1;
        }
        at += name_len + 1;
    }
    for (size_t k = 0; k < s->n; k++)
        if (s->needed >> k & 1 && !found[k])
            return err_set(e, ERR_PROTOCOL, "%s: there is no column %s", s->what, s->columns[k]);
    for (size_t k = 0; s->is_exact && k < s->n; k++)
        if (n != s->n || r->to[k] != k)
            return err_set(e, ERR_PROTOCOL, "%s: the columns differ from those of this job_submit", s->what);
    r->n_columns = n;
    r->has_header = true;
    return 0;
}

static bool is_well_formed(const struct reader *r, const char *line, size_t len)
{
    size_t n = 1;

    for (size_t i = 0; i < len; i++) {
        if (line[i] < 0x20 || line[i] > 0x7e || line[i] == '"')
            return false;
        n += line[i] == ',';
    }
    return n == r->n_columns;
}

static int read_row(struct reader *r, const char *line, size_t len, struct err *e)
{
    struct record_text cells[RECORD_SCAN_COLUMNS];
    const char *end = line + len;
    const char *p = line;

    if (r->s->is_strict && !is_well_formed(r, line, len)) {
        if (r->s->n_left_out)
            ++*r->s->n_left_out;
        return 0;
    }
    for (size_t k = 0; k < r->s->n; k++)
        cells[k] = (struct record_text){"", 0};
    for (size_t n = 0; n < r->width; n++) {
        const char *start = p;

        while (p < end && *p != ',')
            p++;
        if (r->to[n] != NONE)
            cells[r->to[n]] = (struct record_text){start, (size_t)(p - start)};
        if (p++ == end)
            break;
    }
    return r->s->row(r->s->ctx, cells, e);
}

/* Reads the whole lines of the text; returns the bytes read, or an error. */
static ssize_t read_lines(struct reader *r, const char *text, size_t len, struct err *e)
{
    size_t at = 0;
    const char *feed;

    while (at < len && (feed = memchr(text + at, '\n', len - at)) != NULL) {
        size_t n = (size_t)(feed - text) - at;

        if ((r->has_header ? read_row(r, text + at, n, e) : read_header(r, text + at, n, e)) < 0)
            return e->code;
        at += n + 1;
    }
    if (len - at > RECORD_SCAN_ROW)
        return err_set(e, ERR_PROTOCOL, "%s: a row is longer than %d bytes", r->s->what, RECORD_SCAN_ROW);
    return (ssize_t)at;
}

int record_scan_text(const struct record_scan *s, const char *text, size_t len, struct err *e)
{
    struct reader r = {.s = s};

    return read_lines(&r, text, len, e) < 0 ? e->code : 0;
}

/* Not a mapping: a file that another process shortens meanwhile would end this one. */
static int read_chunks(struct reader *r, int fd, char *buffer, struct err *e)
{
    size_t held = 0;
    off_t at = 0;

    for (;;) {
        ssize_t n = pread(fd, buffer + held, CHUNK - held, at);
        ssize_t used;

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_errno(e, ERR_IO, "%s", r->s->what);
        if (n == 0)
            return 0;
        at += n;
        used = read_lines(r, buffer, held + (size_t)n, e);
        if (used < 0)
            return e->code;
        held += (size_t)(n - used);
        memmove(buffer, buffer + used, held);
    }
}

int record_scan_file(const struct record_scan *s, int fd, struct err *e)
{
    struct reader r = {.s = s};
    char *buffer = malloc(CHUNK);
    int rc;

    if (!buffer)
        return err_set(e, ERR_NOMEM, "%s: no memory to read it", s->what);
    rc = read_chunks(&r, fd, buffer, e);
    free(buffer);
    return rc;
}

/* Numbers of up to 2^53 times or by a power of ten that a double holds exactly: one operation, correctly
 * rounded (Clinger, "How to read floating point numbers accurately", PLDI 1990). Those of record.c are so
 * but for very small and very large ones. */
static bool read_short(double *out, const char *p, const char *end)
{
    static const double tens[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                  1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    const int most = sizeof tens / sizeof *tens - 1;
    bool is_negative = p < end && *p == '-';
    bool has_dot = false;
    uint64_t digits = 0;
    int n = 0;
    int power = 0;

    for (p += is_negative; p < end; p++) {
        unsigned d = (unsigned)(*p - '0');

        if (d < 10 && digits <= (UINT64_MAX - 9) / 10) {
            digits = digits * 10 + d;
            power -= has_dot;
            n++;
        } else if (*p == '.' && !has_dot) {
            has_dot = true;
        } else {
            break;
        }
    }
    if (n > 0 && end - p >= 2 && end - p <= 4 && (*p == 'e' || *p == 'E')) {
        bool is_small = p[1] == '-';
        int exponent = 0;

        p += 1 + (is_small || p[1] == '+');
        if (p == end)
            return false;
        for (; p < end && *p >= '0' && *p <= '9'; p++)
            exponent = exponent * 10 + (*p - '0');
        power += is_small ? -exponent : exponent;
    }
    if (n == 0 || p != end || digits > (uint64_t)1 << 53 || power < -most || power > most)
        return false;
    *out = power < 0 ? (double)digits / tens[-power] : (double)digits * tens[power];
    if (is_negative)
        *out = -*out;
    return true;
}

double record_number(const struct record_text *cell)
{
    char text[64];
    char *end;
    double v;

    if (cell->len == 0 || cell->len >= sizeof text)
        return RECORD_MISSING;
    if (read_short(&v, cell->text, cell->text + cell->len))
        return v;
    memcpy(text, cell->text, cell->len);
    text[cell->len] = '\0';
    v = strtod(text, &end);
    return end == text + cell->len ? v : RECORD_MISSING;
}
