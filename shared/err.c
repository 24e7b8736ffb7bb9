#include "shared/err.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int err_set(struct err *e, int code, const char *fmt, ...)
{
    va_list ap;

    e->code = code;
    e->hint[0] = '\0';
    va_start(ap, fmt);
    vsnprintf(e->text, sizeof e->text, fmt, ap);
    va_end(ap);
    return code;
}

int err_errno(struct err *e, int code, const char *fmt, ...)
{
    int saved = errno;
    va_list ap;
    size_t n;

    e->code = saved == ENOSPC || saved == EDQUOT ? ERR_NOSPACE : saved == ENOMEM ? ERR_NOMEM : code;
    e->hint[0] = '\0';
    va_start(ap, fmt);
    vsnprintf(e->text, sizeof e->text, fmt, ap);
    va_end(ap);
    n = strlen(e->text);
    snprintf(e->text + n, sizeof e->text - n, ": %s", strerror(saved));
    return e->code;
}

int err_at(struct err *e, const char *fmt, ...)
{
    char old[sizeof e->text];
    va_list ap;
    size_t n;

    memcpy(old, e->text, sizeof old);
    va_start(ap, fmt);
    vsnprintf(e->text, sizeof e->text, fmt, ap);
    va_end(ap);
    n = strlen(e->text);
    snprintf(e->text + n, sizeof e->text - n, ": %s", old);
    return e->code;
}

int err_hint(struct err *e, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(e->hint, sizeof e->hint, fmt, ap);
    va_end(ap);
    return e->code;
}

double err_number(double v)
{
    return isnan(v) ? fabs(v) : v;
}
