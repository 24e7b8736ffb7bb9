#include "submit/terminal/console.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "shared/base/clock.h"
#include "shared/base/file.h"
#include "shared/base/utf8.h"
#include "submit/terminal/text.h"

enum { LINE = 2048, CONSOLE_KEPT_MAX = 1 << 18, BARS_MAX = 16 };

static struct {
    int verbosity;
    bool terminal, color;
    int log_fd;
    char *kept; /* lines printed before submit.log is open, at most CONSOLE_KEPT_MAX bytes */
    size_t kept_len;
    int n_bars;
    char bars[BARS_MAX][256];
    size_t shown[BARS_MAX]; /* characters of each on the terminal */
} out = {.log_fd = -1};

void console_init(int verbosity, bool no_color)
{
    const char *term = getenv("TERM");
    const char *none = getenv("NO_COLOR");

    out.verbosity = verbosity;
    out.terminal = isatty(STDERR_FILENO) && term && strcmp(term, "dumb") != 0;
    out.color = out.terminal && !no_color && !(none && none[0]);
}

int console_set_verbosity(int verbosity)
{
    int before = out.verbosity;

    out.verbosity = verbosity;
    return before;
}

bool console_is_terminal(void)
{
    return out.terminal && out.verbosity >= 0;
}

/* Errors are ignored: stderr may be a closed terminal, which must not end the job. */
static void put_text(int fd, const char *s, size_t n)
{
    struct err ignored;

    file_write_all(fd, s, n, "", &ignored);
}

/* Read at each call, because the width of a window can change. */
size_t console_width(void)
{
    const char *columns = getenv("COLUMNS");
    int given = columns ? atoi(columns) : 0;
    struct winsize w;

    if (given > 1 && given < 10000)
        return (size_t)given - 1;
    return ioctl(STDERR_FILENO, TIOCGWINSZ, &w) == 0 && w.ws_col > 1 ? w.ws_col - 1u : 79;
}

/* Counts the rows of the bars by the present width, as a terminal that has become narrower has wrapped them.
 * The cursor may be after the "^C" of Ctrl-C. */
static void hide_bars(void)
{
    size_t width = console_width() + 1, rows = 0;
    char up[32];

    if (out.n_bars == 0)
        return;
    for (int i = 0; i < out.n_bars; i++)
        rows += out.shown[i] == 0 ? 1 : (out.shown[i] - 1) / width + 1;
    snprintf(up, sizeof up, "\r\033[%zuA\033[J", rows);
    put_text(STDERR_FILENO, up, strlen(up));
}

static void show_bars(void)
{
    size_t width = console_width();

    for (int i = 0; i < out.n_bars; i++) {
        out.shown[i] = strnlen(out.bars[i], width);
        put_text(STDERR_FILENO, out.bars[i], out.shown[i]);
        put_text(STDERR_FILENO, "\n", 1);
    }
}

void console_bars(const char *const *lines, int n)
{
    if (!console_is_terminal())
        return;
    hide_bars();
    out.n_bars = n < BARS_MAX ? n : BARS_MAX;
    for (int i = 0; i < out.n_bars; i++)
        snprintf(out.bars[i], sizeof out.bars[i], "%s", lines[i]);
    show_bars();
}

static void keep_line(const char *line, size_t n)
{
    if (out.log_fd >= 0) {
        put_text(out.log_fd, line, n);
        return;
    }
    if (!out.kept)
        out.kept = malloc(CONSOLE_KEPT_MAX);
    if (out.kept && n <= CONSOLE_KEPT_MAX - out.kept_len) {
        memcpy(out.kept + out.kept_len, line, n);
        out.kept_len += n;
    }
}

int console_keep(const char *path, struct err *e)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_APPEND | O_CLOEXEC, 0644);

    if (fd < 0 && errno == EEXIST)
        fd = open(path, O_WRONLY | O_NOFOLLOW | O_APPEND | O_CLOEXEC);
    if (fd < 0)
        return err_errno(e, ERR_IO, "%s", path);
    out.log_fd = fd;
    put_text(fd, out.kept, out.kept_len);
    return 0;
}

static void line(int least, const char *level, const char *color, const char *fmt, va_list ap)
{
    char text[LINE];
    char hour[TEXT_AMOUNT];
    int n = 0;

    if (level)
        n = snprintf(text, sizeof text, "%s User Submit@%s : ", level, text_hour(hour, clock_wall()));
    n += vsnprintf(text + n, sizeof text - (size_t)n, fmt, ap);
    if (n > LINE - 2)
        n = LINE - 2;
    utf8_clean(text, (size_t)n, true);
    for (char *lf = text; (lf = memchr(lf, '\n', (size_t)(text + n - lf))) != NULL;)
        *lf = '?'; /* one call prints one line, whatever text it contains */
    text[n++] = '\n';
    text[n] = '\0';
    keep_line(text, (size_t)n);
    if (out.verbosity < least)
        return;
    hide_bars();
    if (out.color && color)
        put_text(STDERR_FILENO, color, strlen(color));
    put_text(STDERR_FILENO, text, (size_t)n);
    if (out.color && color)
        put_text(STDERR_FILENO, "\033[0m", 4);
    show_bars();
}

void console_info(const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    line(0, "INFO", NULL, fmt, ap);
    va_end(ap);
}

void console_more(const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    line(1, "INFO", NULL, fmt, ap);
    va_end(ap);
}

void console_error(const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    line(-1, "ERROR", "\033[31m", fmt, ap);
    va_end(ap);
}

void console_plain(const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    line(0, NULL, NULL, fmt, ap);
    va_end(ap);
}

static void failure_line(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static void failure_line(const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    line(-1, NULL, "\033[31m", fmt, ap);
    va_end(ap);
}

void console_failure(const struct err *e, const char *code)
{
    console_bars(NULL, 0);
    failure_line("error: %s", e->text);
    if (e->hint[0])
        failure_line("hint: %s", e->hint);
    failure_line("code: %s", code);
}

void console_end(void)
{
    console_bars(NULL, 0);
    free(out.kept);
    out.kept = NULL;
    out.kept_len = 0;
    if (out.log_fd >= 0)
        close(out.log_fd);
    out.log_fd = -1;
}
