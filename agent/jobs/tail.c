#include "agent/jobs/tail.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

void tail_open(struct tail *t, int fd)
{
    *t = (struct tail){.is_open = true, .fd = fd};
}

void tail_close(struct tail *t)
{
    if (t->is_open)
        close(t->fd);
    *t = (struct tail){0};
}

static void take(struct tail *t, const char *bytes, size_t len, void (*line)(void *, const char *, size_t),
                 void *arg)
{
    while (len > 0) {
        const char *lf = memchr(bytes, '\n', len);
        size_t n = lf ? (size_t)(lf - bytes) : len;

        if (!t->is_too_long && n > sizeof t->line - t->n) {
            t->is_too_long = true;
            t->n_dropped++;
        }
        if (!t->is_too_long) {
            memcpy(t->line + t->n, bytes, n);
            t->n += n;
        }
        if (!lf)
            return;
        if (!t->is_too_long)
            line(arg, t->line, t->n);
        t->n = 0;
        t->is_too_long = false;
        bytes += n + 1;
        len -= n + 1;
    }
}

bool tail_read(struct tail *t, void (*line)(void *arg, const char *text, size_t len), void *arg)
{
    size_t left = TAIL_TURN_BYTES;
    char buf[16384];
    ssize_t n;

    while (left > 0 && ((n = read(t->fd, buf, sizeof buf)) > 0 || (n < 0 && errno == EINTR))) {
        if (n < 0)
            continue;
        take(t, buf, (size_t)n, line, arg);
        left -= (size_t)n < left ? (size_t)n : left;
    }
    return left == 0;
}
