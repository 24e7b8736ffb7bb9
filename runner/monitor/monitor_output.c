#include "runner/monitor/monitor_output.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "shared/base/file.h"
#include "shared/base/utf8.h"

enum { COPIED_AT_ONCE = 64 << 10, COPIED_AT_END = 1 << 20 };

static const char traceback[] = "Traceback (most recent call last):";

void monitor_output_open(struct monitor_output *o, int stdout_fd, int stderr_fd, int log_fd)
{
    *o = (struct monitor_output){.fds = {[OUTPUT_STDOUT] = stdout_fd, [OUTPUT_STDERR] = stderr_fd},
                                 .log_fd = log_fd};
}

/* A log that cannot be written, on a full disk, does not end the program. */
static void write_log(const struct monitor_output *o, const char *bytes, size_t len)
{
    file_write_all(o->log_fd, bytes, len, "the node's log", &(struct err){0});
}

static void say_that_it_is_much(const struct monitor_output *o)
{
    char text[160];
    int n = snprintf(text, sizeof text,
                     "\n[the program has written %d MiB; of what follows the log gets the last %d KiB]\n",
                     OUTPUT_FIRST >> 20, OUTPUT_LAST >> 10);

    write_log(o, text, (size_t)n);
}

static void keep_bytes(struct monitor_output *o, const char *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++)
        o->kept[(size_t)(o->n_read - OUTPUT_FIRST + i) % OUTPUT_LAST] = bytes[i];
}

/* Text of one stream does not continue a line of the other. A progress bar ends its lines by a carriage
 * return. */
static bool is_within_line(const struct monitor_output *o)
{
    return o->n_read > 0 && o->last_byte != '\n' && o->last_byte != '\r';
}

static void log_bytes(struct monitor_output *o, const char *bytes, size_t len)
{
    uint64_t room = o->n_read < OUTPUT_FIRST ? OUTPUT_FIRST - o->n_read : 0;
    size_t n_first = len < room ? len : (size_t)room;

    write_log(o, bytes, n_first);
    o->n_read += n_first;
    if (n_first < len && o->n_read == OUTPUT_FIRST)
        say_that_it_is_much(o);
    keep_bytes(o, bytes + n_first, len - n_first);
    o->n_read += len - n_first;
    o->last_byte = bytes[len - 1];
}

/* The line that is complete now. */
static void take_line(struct monitor_output *o)
{
    bool is_blank;

    o->line[o->n_line] = '\0';
    is_blank = strspn(o->line, " \t") == o->n_line;
    utf8_clean(o->line, o->n_line, false);
    if (!is_blank)
        memcpy(o->last, o->line, sizeof o->last);
    if (strcmp(o->line, traceback) == 0) {
        o->is_in_traceback = true;
    } else if (o->is_in_traceback && o->line[0] != ' ' && o->n_line > 0) {
        memcpy(o->raised, o->line, sizeof o->raised);
        o->is_in_traceback = false;
    }
    o->n_line = 0;
}

static void follow_lines(struct monitor_output *o, const char *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (bytes[i] == '\n' || bytes[i] == '\r')
            take_line(o);
        else if (o->n_line < sizeof o->line - 1)
            o->line[o->n_line++] = bytes[i];
    }
}

/* Returns the number of bytes; 0: there are none now, or no more. */
static size_t copy_part(struct monitor_output *o, int which)
{
    char part[8192];
    ssize_t n = o->fds[which] < 0 ? 0 : read(o->fds[which], part, sizeof part);

    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) {
        if (o->fds[which] >= 0)
            close(o->fds[which]);
        o->fds[which] = -1;
    }
    if (n <= 0)
        return 0;
    if (which != o->last_which && is_within_line(o))
        log_bytes(o, "\n", 1);
    o->last_which = which;
    log_bytes(o, part, (size_t)n);
    if (which == OUTPUT_STDERR)
        follow_lines(o, part, (size_t)n);
    return (size_t)n;
}

static void copy_most(struct monitor_output *o, int which, size_t most)
{
    size_t n;

    for (size_t done = 0; done < most && (n = copy_part(o, which)) > 0; done += n)
        continue;
}

void monitor_output_copy(struct monitor_output *o, int which)
{
    copy_most(o, which, COPIED_AT_ONCE);
}

/* The last part of more than the log has got. */
static void log_kept(const struct monitor_output *o)
{
    uint64_t n = o->n_read - OUTPUT_FIRST, n_kept = n < OUTPUT_LAST ? n : OUTPUT_LAST;
    size_t end = (size_t)(n % OUTPUT_LAST);
    char text[96];

    if (n > n_kept) {
        int len = snprintf(text, sizeof text, "[%llu bytes of its output are left out here]\n",
                           (unsigned long long)(n - n_kept));

        write_log(o, text, (size_t)len);
        write_log(o, o->kept + end, OUTPUT_LAST - end);
    }
    write_log(o, o->kept, n > n_kept ? end : (size_t)n);
}

void monitor_output_close(struct monitor_output *o)
{
    for (int i = 0; i < N_OUTPUTS; i++) {
        copy_most(o, i, COPIED_AT_END);
        if (o->fds[i] >= 0)
            close(o->fds[i]);
        o->fds[i] = -1;
    }
    take_line(o);
    if (o->n_read > OUTPUT_FIRST)
        log_kept(o);
    if (o->n_read > 0 && o->last_byte != '\n')
        write_log(o, "\n", 1);
}

const char *monitor_output_reason(const struct monitor_output *o, int status)
{
    enum { OF_EXCEPTION = 1 }; /* of an interpreter that ends by an exception */

    return status == OF_EXCEPTION && o->raised[0] ? o->raised : o->last;
}
