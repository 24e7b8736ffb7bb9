#include "agent/tail.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

void tail_open(struct tail *t, int fd)
{
    char path[64];

    *t = (struct tail){.is_open = true, .fd = fd, .inotify_fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK)};
    /* By descriptor: watches the file that was opened and checked, whatever its name is now. */
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    /* A user has 128 instances, of all programs together. */
    if (t->inotify_fd >= 0 && inotify_add_watch(t->inotify_fd, path, IN_MODIFY) < 0) {
        close(t->inotify_fd);
        t->inotify_fd = -1;
    }
}

void tail_close(struct tail *t)
{
    if (t->is_open) {
        close(t->fd);
        if (t->inotify_fd >= 0)
            close(t->inotify_fd);
    }
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

static void clear_wakeups(const struct tail *t)
{
    char events[4096];

    while (read(t->inotify_fd, events, sizeof events) > 0)
        continue;
}

bool tail_read(struct tail *t, void (*line)(void *arg, const char *text, size_t len), void *arg)
{
    size_t left = TAIL_TURN_BYTES;
    char buf[16384];
    ssize_t n;

    clear_wakeups(t); /* before reading: later writes notify again */
    while (left > 0 && ((n = read(t->fd, buf, sizeof buf)) > 0 || (n < 0 && errno == EINTR))) {
        if (n < 0)
            continue;
        take(t, buf, (size_t)n, line, arg);
        left -= (size_t)n < left ? (size_t)n : left;
    }
    return left == 0;
}
