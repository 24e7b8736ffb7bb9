#include "agent/base/log.h"

#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "shared/base/clock.h"
#include "shared/base/utf8.h"

enum { LINE_MAX_BYTES = 2048 };

static const char *const level_names[] = {"INFO ", "WARN ", "ERROR"};

/* A terminal that is stopped (Ctrl-S), or a reader that does not read, must not stop the agent: lines are
 * left out, and the next one that is written states how many. A failure cannot be reported. */
static void write_line(char *line, size_t n)
{
    static unsigned long n_left_out;
    struct pollfd out = {.fd = STDERR_FILENO, .events = POLLOUT};
    char note[80];
    int k;

    if (poll(&out, 1, 0) == 0) {
        n_left_out++;
        return;
    }
    if (n_left_out > 0) {
        k = snprintf(note, sizeof note, "(%lu lines were left out: nobody read them)\n", n_left_out);
        n_left_out = 0;
        if (write(STDERR_FILENO, note, (size_t)k) < 0)
            return;
    }
    if (write(STDERR_FILENO, line, n) < 0)
        return;
}

static char own_name[32]; /* "": lines have the name of their caller */

void log_rename(const char *name)
{
    snprintf(own_name, sizeof own_name, "%s", name);
}

void log_line(enum log_level level, const char *program, const char *job, const char *fmt, ...)
{
    char line[LINE_MAX_BYTES + 1], at[CLOCK_TEXT];
    va_list ap;
    size_t n;

    snprintf(line, LINE_MAX_BYTES, "%s %s %s %s%s", clock_text(at, clock_wall()), level_names[level],
             own_name[0] ? own_name : program, job ? job : "", job ? " " : "");
    n = strlen(line);
    va_start(ap, fmt);
    vsnprintf(line + n, LINE_MAX_BYTES - n, fmt, ap);
    va_end(ap);
    n = strlen(line);
    utf8_clean(line, n, false);
    line[n++] = '\n';
    write_line(line, n);
}
