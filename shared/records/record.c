#include "shared/records/record.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shared/base/file.h"

enum { CELL_MAX = 64 }; /* the longest number has 25 characters; psgd's texts are short */

#define COLUMN(row, name, type, help) {#name, RECORD_##type, offsetof(struct row, name), help},
#define RECORD_FILE(ID, file, row, columns, ...)                                                             \
    const struct record_column row##_columns[] = {columns(COLUMN, row){0}};                                  \
    _Static_assert(sizeof row##_columns / sizeof *row##_columns < RECORD_COLUMNS_MAX,                        \
                   "at most 30 columns: raise RECORD_COLUMNS_MAX");
RECORD_FILES(RECORD_FILE)
#undef RECORD_FILE
#undef COLUMN

static size_t n_columns(const struct record_column *c)
{
    size_t n = 0;

    while (c[n].name)
        n++;
    return n;
}

/* Numbers are not printed with snprintf, with which a row of train.csv takes a tenth of a small network's
 * step. Each function returns the characters written. */
static int print_digits(char *out, uint64_t v, int at_least)
{
    char digits[20];
    int n = 0;

    for (; v > 0 || n < at_least; v /= 10)
        digits[n++] = (char)('0' + v % 10);
    for (int i = 0; i < n; i++)
        out[i] = digits[n - 1 - i];
    return n;
}

static int print_int(char *out, int v)
{
    bool is_negative = v < 0;

    out[0] = '-';
    return is_negative + print_digits(out + is_negative, (uint64_t)llabs(v), 1);
}

/* As %.*f. The product has a relative error of at most 1.2e-16; values that near to a rounding boundary are
 * left to snprintf. */
static int print_fixed(char *out, double v, double unit, int decimals)
{
    double scaled = v * unit;
    double whole = floor(scaled);
    int n;

    if (!(scaled >= 0 && scaled < 1e15) || fabs(scaled - whole - 0.5) < 1e-6 * (1 + scaled * 1e-9))
        return snprintf(out, CELL_MAX, "%.*f", decimals, v);
    whole += scaled - whole > 0.5;
    n = print_digits(out, (uint64_t)whole / (uint64_t)unit, 1);
    out[n++] = '.';
    return n + print_digits(out + n, (uint64_t)whole % (uint64_t)unit, decimals);
}

static int print_seconds(char *out, double v)
{
    return print_fixed(out, v, 1e6, 6);
}

static int print_nanoseconds(char *out, double v)
{
    return print_fixed(out, v, 1e9, 9);
}

/* As %.9g. Scaled to an integer of nine digits; the product has an error of at most 1.2e-7, so that only a
 * value that near to the middle of two integers could be rounded wrongly. Such values, and those that need
 * an exponent, are left to snprintf. */
static int print_nine_digits(char *out, double v)
{
    static const double tens[] = {1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12};
    double size = fabs(v);
    bool is_negative = signbit(v);
    double scaled, whole;
    uint64_t digits;
    int power = 0, n = 0;

    if (v == 0 && !is_negative)
        return print_digits(out, 0, 1);
    if (!(size >= 1e-3 && size < 1e8))
        return snprintf(out, CELL_MAX, "%.9g", v);
    while (size * tens[power] < 1e8)
        power++;
    scaled = size * tens[power];
    whole = floor(scaled);
    if (fabs(scaled - whole - 0.5) < 1e-6)
        return snprintf(out, CELL_MAX, "%.9g", v);
    digits = (uint64_t)whole + (scaled - whole > 0.5);
    for (; power > 0 && digits % 10 == 0; power--)
        digits /= 10;
    if (is_negative)
        out[n++] = '-';
    n += print_digits(out + n, digits / (uint64_t)tens[power], 1);
    if (power == 0)
        return n;
    out[n++] = '.';
    return n + print_digits(out + n, digits % (uint64_t)tens[power], power);
}

static int print_float(char *out, double v, int (*print)(char *, double))
{
    if (v == RECORD_MISSING)
        return 0;
    if (!isfinite(v))
        return snprintf(out, CELL_MAX, "%s", isnan(v) ? "nan" : v < 0 ? "-inf" : "inf");
    return print(out, v);
}

static int print_line(char *out, const char *line)
{
    size_t n = strlen(line);

    memcpy(out, line, n);
    return (int)n;
}

static int print_cell(char *out, const void *at, enum record_type type)
{
    switch (type) {
    case RECORD_TEXT:
        return snprintf(out, CELL_MAX, "%s", *(const char *const *)at);
    case RECORD_LINE:
        return print_line(out, *(const char *const *)at);
    case RECORD_INT:
        return print_int(out, *(const int *)at);
    case RECORD_U64:
        return print_digits(out, *(const uint64_t *)at, 1);
    case RECORD_FLOAT:
        return print_float(out, *(const double *)at, print_nine_digits);
    case RECORD_SECONDS:
        return print_float(out, *(const double *)at, print_seconds);
    case RECORD_SPAN:
        return print_float(out, *(const double *)at, print_nanoseconds);
    }
    return 0;
}

static char *print_row(char *out, const struct record_column *columns, const void *row)
{
    for (const struct record_column *c = columns; c->name; c++) {
        out += print_cell(out, (const char *)row + c->offset, c->type);
        *out++ = c[1].name ? ',' : '\n';
    }
    return out;
}

static int write_rows(struct record_file *f, const char *rows, size_t len, struct err *e)
{
    struct stat st;
    const char *end;

    if (file_write_all(f->fd, rows, len, f->path, e) == 0) {
        f->bytes += len;
        return 0;
    }
    /* On a full disk a part of the rows was written: keeps the whole rows. */
    end = fstat(f->fd, &st) == 0 && (uint64_t)st.st_size > f->bytes && (uint64_t)st.st_size - f->bytes <= len
              ? memrchr(rows, '\n', (size_t)((uint64_t)st.st_size - f->bytes))
              : NULL;
    f->bytes += end ? (size_t)(end - rows) + 1 : 0;
    if (ftruncate(f->fd, (off_t)f->bytes) < 0)
        err_at(e, "truncating");
    return e->code;
}

int record_open(struct record_file *f, const char *path, const struct record_column *columns, struct err *e)
{
    char header[RECORD_COLUMNS_MAX * CELL_MAX];
    size_t n = 0;

    *f = (struct record_file){.columns = columns, .path = path, .fd = -1};
    for (const struct record_column *c = columns; c->name && n < sizeof header; c++)
        n += (size_t)snprintf(header + n, sizeof header - n, "%s%c", c->name, c[1].name ? ',' : '\n');
    if (n >= sizeof header)
        return err_set(e, ERR_INTERNAL, "%s: the header is longer than %zu bytes", path, sizeof header);
    f->fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0644);
    if (f->fd < 0)
        return err_errno(e, ERR_IO, "%s", path);
    if (write_rows(f, header, n, e) < 0) {
        record_close(f);
        return e->code;
    }
    return 0;
}

/* The most bytes that the rows may take. */
static size_t room_of(const struct record_column *columns, const char *rows, size_t size, size_t n)
{
    size_t room = n * n_columns(columns) * CELL_MAX;

    for (const struct record_column *c = columns; c->name; c++)
        for (size_t i = 0; c->type == RECORD_LINE && i < n; i++)
            room += strlen(*(const char *const *)(const void *)(rows + i * size + c->offset));
    return room;
}

void record_put_line(char *out, const void *bytes, size_t n)
{
    static const char digits[] = "0123456789ABCDEF";
    const uint8_t *from = bytes;

    for (size_t i = 0; i < n; i++) {
        if (from[i] >= 0x20 && from[i] <= 0x7e && !strchr(",\"%", from[i])) {
            *out++ = (char)from[i];
            continue;
        }
        *out++ = '%';
        *out++ = digits[from[i] >> 4];
        *out++ = digits[from[i] & 15];
    }
    *out = '\0';
}

static int digit_of(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

size_t record_line_bytes(char *out, const struct record_text *cell)
{
    size_t n = 0;

    for (size_t i = 0; i < cell->len; i++) {
        const char *at = cell->text + i;
        bool is_code = *at == '%' && cell->len - i > 2 && digit_of(at[1]) >= 0 && digit_of(at[2]) >= 0;

        out[n++] = is_code ? (char)(digit_of(at[1]) * 16 + digit_of(at[2])) : *at;
        i += is_code ? 2 : 0;
    }
    return n;
}

int record_write(struct record_file *f, const void *rows, size_t size, size_t n, struct err *e)
{
    size_t need = f->n_held + room_of(f->columns, rows, size, n);
    char *at;

    if (need > f->text_size) {
        char *text = realloc(f->text, need += RECORD_HELD);

        if (!text)
            return err_set(e, ERR_NOMEM, "%s: no memory for %zu rows", f->path, n);
        f->text = text;
        f->text_size = need;
    }
    at = f->text + f->n_held;
    for (size_t i = 0; i < n; i++)
        at = print_row(at, f->columns, (const char *)rows + i * size);
    f->n_held = (size_t)(at - f->text);
    return f->n_held < RECORD_HELD ? 0 : record_flush(f, e);
}

int record_flush(struct record_file *f, struct err *e)
{
    size_t n = f->n_held;

    f->n_held = 0;
    return n > 0 ? write_rows(f, f->text, n, e) : 0;
}

int record_sync(struct record_file *f, struct err *e)
{
    if (record_flush(f, e) < 0)
        return e->code;
    return fsync(f->fd) < 0 ? err_errno(e, ERR_IO, "%s", f->path) : 0;
}

void record_close(struct record_file *f)
{
    if (f->fd >= 0)
        close(f->fd);
    free(f->text);
    *f = (struct record_file){.fd = -1};
}

enum { CHUNK_BYTES = 1 << 20, NOT_CHOSEN = 0xff /* in `to` */ };

struct record_reader {
    const struct record_scan *s;
    bool has_header;
    size_t n_columns;                    /* of the file */
    size_t width;                        /* the number of them up to the last chosen one */
    unsigned char to[RECORD_SCAN_WIDTH]; /* from a column of the file to its index in s->columns */
};

static int read_header(struct record_reader *r, const char *line, size_t len, struct err *e)
{
    const struct record_scan *s = r->s;
    bool found[RECORD_SCAN_COLUMNS] = {false};
    size_t n = 0;

    memset(r->to, NOT_CHOSEN, sizeof r->to);
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

static bool is_well_formed(const struct record_reader *r, const char *line, size_t len)
{
    size_t n = 1;

    for (size_t i = 0; i < len; i++) {
        if (line[i] < 0x20 || line[i] > 0x7e || line[i] == '"')
            return false;
        n += line[i] == ',';
    }
    return n == r->n_columns;
}

static int read_row(struct record_reader *r, const char *line, size_t len, struct err *e)
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
        if (r->to[n] != NOT_CHOSEN)
            cells[r->to[n]] = (struct record_text){start, (size_t)(p - start)};
        if (p++ == end)
            break;
    }
    return r->s->row(r->s->ctx, cells, e);
}

/* Reads the whole lines of the text; returns the bytes read, or an error. */
static ssize_t read_lines(struct record_reader *r, const char *text, size_t len, struct err *e)
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
    struct record_reader r = {.s = s};

    return read_lines(&r, text, len, e) < 0 ? e->code : 0;
}

/* The file is not mapped: if another process shortened it, an access to the mapping would end this one. */
static int read_chunks(struct record_reader *r, int fd, char *buffer, struct err *e)
{
    size_t held = 0;
    off_t at = 0;

    for (;;) {
        ssize_t n = pread(fd, buffer + held, CHUNK_BYTES - held, at);
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
    struct record_reader r = {.s = s};
    char *buffer = malloc(CHUNK_BYTES);
    int rc;

    if (!buffer)
        return err_set(e, ERR_NOMEM, "%s: no memory to read it", s->what);
    rc = read_chunks(&r, fd, buffer, e);
    free(buffer);
    return rc;
}

/* Reads a number of digits below 2^53, times a power of ten that a double represents exactly: then one
 * operation gives the correctly rounded result (Clinger, "How to read floating point numbers accurately",
 * PLDI 1990). All that record_write() prints is so, except for very small and very large numbers. Returns
 * false for others. */
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
