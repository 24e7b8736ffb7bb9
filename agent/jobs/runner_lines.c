#include "agent/jobs/runner_lines.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
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

static void take_bytes(struct tail *t, const char *bytes, size_t len,
                       void (*line)(void *, const char *, size_t), void *arg)
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
        take_bytes(t, buf, (size_t)n, line, arg);
        left -= (size_t)n < left ? (size_t)n : left;
    }
    return left == 0;
}

bool runner_line_is(const char *name, const char *text, size_t len)
{
    char head[32];
    int n = snprintf(head, sizeof head, "{\"event\":\"%s\"", name);

    return (size_t)n < len && memcmp(text, head, (size_t)n) == 0;
}

/* N_FACT_LINES: it is none. */
static int fact_of(const char *text, size_t len)
{
    static const char *const names[N_FACT_LINES] = {"engine", "isolation", "stopped", "result"};
    int k = 0;

    while (k < N_FACT_LINES && !runner_line_is(names[k], text, len))
        k++;
    return k;
}

bool runner_line_is_fact(const char *text, size_t len)
{
    return fact_of(text, len) < N_FACT_LINES;
}

static enum held_kind kind_of(const char *text, size_t len)
{
    return runner_line_is("progress", text, len) ? HELD_PROGRESS
           : runner_line_is("eval", text, len)   ? HELD_EVAL
                                                 : HELD_OTHER;
}

static bool take_token(struct line_limit *in, double room, double now)
{
    double since = in->filled_at > 0 ? now - in->filled_at : INFINITY;

    in->tokens = fmin(in->tokens + fmin(since, 1e9) * LINE_RATE * room, LINE_BURST * room);
    in->filled_at = now;
    if (in->tokens < 1)
        return false;
    in->tokens -= 1;
    return true;
}

static void hold_line(struct held_line *held, const char *text, size_t len)
{
    memcpy(held->text, text, len);
    held->len = len;
}

bool line_limit_offer(struct line_limit *in, const char *text, size_t len, double room, double now)
{
    enum held_kind kind = kind_of(text, len);
    int fact = fact_of(text, len);

    in->n_seen++;
    if (fact < N_FACT_LINES && !in->has_fact[fact]) {
        in->has_fact[fact] = true;
        return true;
    }
    if (take_token(in, room, now))
        return true;
    if (kind == HELD_OTHER) {
        in->n_dropped++;
        return false;
    }
    in->n_dropped += in->held[kind].len > 0;
    hold_line(&in->held[kind], text, len);
    return false;
}

bool line_limit_take_held(struct line_limit *in, struct held_line *out, double room, double now, bool is_last)
{
    int k = 0;

    while (k < N_HELD && in->held[k].len == 0)
        k++;
    if (k == N_HELD || !(is_last || take_token(in, room, now)))
        return false;
    hold_line(out, in->held[k].text, in->held[k].len);
    in->held[k].len = 0;
    return true;
}

uint64_t line_limit_n_held(const struct line_limit *in)
{
    uint64_t n = 0;

    for (int k = 0; k < N_HELD; k++)
        n += in->held[k].len > 0;
    return n;
}
