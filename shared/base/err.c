#include "shared/base/err.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "shared/base/utf8.h"

/* Truncates after a whole character: later readers refuse invalid UTF-8. */
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

/* A limit of inotify or epoll has the errno of a full disk. */
static int code_of(int error, bool is_limit, int code)
{
    if (error == ENOMEM)
        return ERR_NOMEM;
    return (error == ENOSPC || error == EDQUOT) && !is_limit ? ERR_NOSPACE : code;
}

static int set_errno(struct err *e, int code, enum call call, int error, const char *fmt, va_list ap)
{
    char limit[ERR_LIMIT_TEXT];

    err_limit_text(limit, call, error);
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

enum { NUMBER = 32 };

/* A limit of the process, the user or the machine. Its value is that of `sysctl`, or, without one, of
 * `rlimit`. */
struct limit {
    const char *what; /* "a process may have %s open files", with its value */
    int rlimit;
    const char *sysctl; /* NULL: none */
    const char *inner;  /* the sysctl of the same limit in a user namespace; NULL: none */
    const char *lift;   /* what raises the limit; NULL: the sysctl */
};

static const struct limit
    descriptors = {.what = "this process may have %s open files",
                   .rlimit = RLIMIT_NOFILE,
                   .lift = "ulimit -n, or LimitNOFILE= of a systemd unit, raises that"},
    files = {.what = "this machine may have %s open files", .sysctl = "fs.file-max"},
    pipes = {.what = "the pipes of a user may have %s pages (0: no limit)",
             .sysctl = "fs.pipe-user-pages-hard",
             .lift = "sysctl fs.pipe-user-pages-hard raises that; fs.file-max limits open files"},
    instances = {.what = "a user may have %s inotify instances",
                 .sysctl = "fs.inotify.max_user_instances",
                 .inner = "user.max_inotify_instances"},
    watches = {.what = "a user may have %s inotify watches",
               .sysctl = "fs.inotify.max_user_watches",
               .inner = "user.max_inotify_watches"},
    polled = {.what = "a user may watch %s descriptors by epoll", .sysctl = "fs.epoll.max_user_watches"},
    processes = {.what = "this user may have %s processes and threads",
                 .rlimit = RLIMIT_NPROC,
                 .lift = "ulimit -u, or LimitNPROC= of a systemd unit, raises that; TasksMax= of the unit "
                         "(pids.max) and sysctl kernel.threads-max limit them too"},
    /* ENOMEM has three causes, of which the first is the usual one. */
    mappings = {.what = "free memory and ulimit -v limit that, and a process may have %s memory maps",
                .sysctl = "vm.max_map_count",
                .lift = "sysctl vm.max_map_count raises the last"};

/* The first row that fits is taken. */
static const struct {
    enum call call; /* CALL_OTHER: any */
    int error;
    const struct limit *limit;
} rows[] = {
    {CALL_INOTIFY, EMFILE, &instances}, {CALL_INOTIFY_WATCH, ENOSPC, &watches},
    {CALL_EPOLL_CTL, ENOSPC, &polled},  {CALL_PIPE, ENFILE, &pipes},
    {CALL_FORK, EAGAIN, &processes},    {CALL_THREAD, EAGAIN, &processes},
    {CALL_MAP, ENOMEM, &mappings},      {CALL_OTHER, EMFILE, &descriptors},
    {CALL_OTHER, ENFILE, &files},
};

/* Writes "?" if the sysctl cannot be read, as in a sandbox. Returns false if no descriptor is free to read
 * it. */
static bool read_sysctl(char out[NUMBER], const char *name)
{
    char path[64];
    ssize_t n;
    int fd;

    snprintf(out, NUMBER, "?");
    snprintf(path, sizeof path, "/proc/sys/%s", name);
    for (char *p = path + strlen("/proc/sys/"); *p; p++)
        *p = *p == '.' ? '/' : *p;
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return errno != EMFILE;
    n = read(fd, out, NUMBER - 1);
    close(fd);
    out[n > 0 ? n : 0] = '\0';
    out[strcspn(out, "\n")] = '\0';
    return true;
}

static void read_rlimit(char out[NUMBER], int which)
{
    struct rlimit r;

    if (getrlimit((__rlimit_resource_t)which, &r) < 0)
        snprintf(out, NUMBER, "?");
    else if (r.rlim_cur == RLIM_INFINITY)
        snprintf(out, NUMBER, "any number of");
    else
        snprintf(out, NUMBER, "%llu", (unsigned long long)r.rlim_cur);
}

static const struct limit *find_limit(enum call call, int error)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].error == error && (rows[i].call == call || rows[i].call == CALL_OTHER))
            return rows[i].limit;
    return NULL;
}

/* Writes the limit's value; *sysctl: where it is set, or NULL. */
static void read_limit(char value[NUMBER], const char **sysctl, const struct limit *l)
{
    char inner[NUMBER] = "";

    *sysctl = l->sysctl;
    if (!l->sysctl)
        read_rlimit(value, l->rlimit);
    if (l->inner)
        read_sysctl(inner, l->inner);
    if (inner[0] >= '0' && inner[0] <= '9' && atoll(inner) < atoll(value)) {
        memcpy(value, inner, sizeof inner);
        *sysctl = l->inner;
    }
}

void err_limit_text(char out[ERR_LIMIT_TEXT], enum call call, int error)
{
    const struct limit *l = find_limit(call, error);
    char value[NUMBER];
    const char *sysctl;
    int n;

    out[0] = '\0';
    if (!l)
        return;
    if (l->sysctl && !read_sysctl(value, l->sysctl) && error == EMFILE)
        l = &descriptors; /* EMFILE of inotify_init1 has two causes, and no free descriptor is this one */
    read_limit(value, &sysctl, l);
    n = snprintf(out, ERR_LIMIT_TEXT, l->what, value);
    if (n < 0 || n >= ERR_LIMIT_TEXT)
        return;
    if (l->lift)
        snprintf(out + n, (size_t)(ERR_LIMIT_TEXT - n), ": %s", l->lift);
    else
        snprintf(out + n, (size_t)(ERR_LIMIT_TEXT - n), ": sysctl %s raises that", sysctl);
}
