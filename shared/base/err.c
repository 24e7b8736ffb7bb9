#include "shared/base/err.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "shared/base/machine_limits.h"
#include "shared/base/utf8.h"

/* Truncates at a whole character: invalid UTF-8 would be refused by later readers. */
static void write_text(char *out, size_t size, const char *fmt, va_list ap)
{
    if (vsnprintf(out, size, fmt, ap) >= (int)size)
        out[utf8_whole(out, size - 1)] = '\0';
}

static void append_text(struct err *e, const char *text)
{
    size_t n = strlen(e->text);

    if (snprintf(e->text + n, sizeof e->text - n, ": %s", text) >= (int)(sizeof e->text - n))
        e->text[utf8_whole(e->text, sizeof e->text - 1)] = '\0';
}

int err_set(struct err *e, int code, const char *fmt, ...)
{
    va_list ap;

    e->code = code;
    e->hint[0] = '\0';
    va_start(ap, fmt);
    write_text(e->text, sizeof e->text, fmt, ap);
    va_end(ap);
    return code;
}

/* Some limits of the kernel have the error of a full disk. */
static int code_of(int error, bool is_limit, int code)
{
    if (error == ENOMEM)
        return ERR_NOMEM;
    return (error == ENOSPC || error == EDQUOT) && !is_limit ? ERR_NOSPACE : code;
}

static int set_errno(struct err *e, int code, enum call call, int error, const char *fmt, va_list ap)
{
    char limit[LIMIT_TEXT];

    limit_text(limit, call, error);
    e->code = code_of(error, limit[0], code);
    e->hint[0] = '\0';
    write_text(e->text, sizeof e->text, fmt, ap);
    append_text(e, strerror(error));
    if (limit[0])
        append_text(e, limit);
    return e->code;
}

int err_errno(struct err *e, int code, const char *fmt, ...)
{
    int error = errno;
    va_list ap;

    va_start(ap, fmt);
    set_errno(e, code, CALL_OTHER, error, fmt, ap);
    va_end(ap);
    return e->code;
}

int err_call(struct err *e, int code, enum call call, const char *fmt, ...)
{
    int error = errno;
    va_list ap;

    va_start(ap, fmt);
    set_errno(e, code, call, error, fmt, ap);
    va_end(ap);
    return e->code;
}

int err_at(struct err *e, const char *fmt, ...)
{
    char old[sizeof e->text];
    va_list ap;

    memcpy(old, e->text, sizeof old);
    va_start(ap, fmt);
    write_text(e->text, sizeof e->text, fmt, ap);
    va_end(ap);
    append_text(e, old);
    return e->code;
}

int err_hint(struct err *e, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    write_text(e->hint, sizeof e->hint, fmt, ap);
    va_end(ap);
    return e->code;
}

double err_number(double v)
{
    return isnan(v) ? fabs(v) : v;
}
