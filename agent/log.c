#include "agent/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "shared/clock.h"
#include "shared/utf8.h"

enum { LINE_MAX_BYTES = 2048 };

static const char *const level_names[] = {"INFO ", "WARN ", "ERROR"};

void log_line(enum log_level level, const char *program, const char *job, const char *fmt, ...)
{
    char line[LINE_MAX_BYTES + 1], at[CLOCK_TEXT];
    va_list ap;
    size_t n;

    snprintf(line, LINE_MAX_BYTES, "%s %s %s %s%s", clock_text(at, clock_wall()), level_names[level], program,
             job ? job : "", job ? " " : "");
    n = strlen(line);
    va_start(ap, fmt);
    vsnprintf(line + n, LINE_MAX_BYTES - n, fmt, ap);
    va_end(ap);
    n = strlen(line);
    utf8_clean(line, n, false);
    line[n++] = '\n';
    /* A failure cannot be reported: stderr is the only output. */
    if (write(STDERR_FILENO, line, n) < 0)
        return;
}
