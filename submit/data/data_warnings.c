#include "submit/data/data_warnings.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/utf8.h"
#include "submit/terminal/console.h"

void data_warn(struct data_warnings *w, const char *fmt, ...)
{
    char sentence[DATA_WARNING_LEN] = "further warnings about this file are left out";
    size_t len;
    va_list args;
    char *more;

    if (w->n > DATA_WARNINGS_MAX)
        return;
    va_start(args, fmt);
    if (w->n < DATA_WARNINGS_MAX)
        vsnprintf(sentence, sizeof sentence, fmt, args);
    va_end(args);
    len = strlen(sentence);
    utf8_clean(sentence, len, false);
    more = realloc(w->text, w->len + len + 1);
    if (!more)
        return;
    w->text = more;
    memcpy(more + w->len, sentence, len + 1);
    w->len += len + 1;
    w->n++;
}

const char *data_warning(const struct data_warnings *w, const char *last)
{
    const char *next = last ? last + strlen(last) + 1 : w->text;

    return next && next < w->text + w->len ? next : NULL;
}

void data_warnings_print(const struct data_warnings *w)
{
    for (const char *one = NULL; (one = data_warning(w, one)) != NULL;)
        console_info("Warning: %s.", one);
}

void data_warnings_clear(struct data_warnings *w)
{
    free(w->text);
    *w = (struct data_warnings){0};
}
