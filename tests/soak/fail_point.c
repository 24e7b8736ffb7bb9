/* fail_point -- kills its process when it reaches a named point for the n-th time; loaded by LD_PRELOAD,
 * so that every call by which an unchanged program changes a file or answers a peer is a point.
 *
 *   PSGD_FAIL_POINT=CALL/FILE@MOMENT:N   CALL is one of those below, FILE the last part of the file's name as
 *                                        in the log, or "socket"; MOMENT before, half (of a write) or after
 *   PSGD_FAIL_LOG=PATH                   appends "CALL/FILE" each time such a point is come to
 *
 * Children of the process are left alone. */
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>

#include "preload_log.h"

enum moment { BEFORE, HALF, AFTER };
static const char *const moments[] = {"before", "half", "after"};

static char wanted[NAME_MAX + 32]; /* "CALL/FILE" */
static enum moment wanted_moment;
static int wanted_count;
static atomic_int count;
static int log_fd = -1;
static pid_t owner;

__attribute__((constructor)) static void read_environment(void)
{
    const char *point = getenv("PSGD_FAIL_POINT");
    char moment[16] = "";

    owner = getpid();
    log_fd = preload_log_open(getenv("PSGD_FAIL_LOG"));
    if (point && sscanf(point, "%250[^@]@%15[a-z]:%d", wanted, moment, &wanted_count) == 3)
        for (int i = BEFORE; i <= AFTER; i++)
            if (strcmp(moment, moments[i]) == 0)
                wanted_moment = (enum moment)i;
    unsetenv("PSGD_FAIL_POINT");
    unsetenv("PSGD_FAIL_LOG");
    unsetenv("LD_PRELOAD");
}

/* One '#' for each run of digits. */
static void hide_numbers(char *name)
{
    static const char digits[] = "0123456789";
    char *to = name;

    while (*name) {
        size_t n = strspn(name, digits);

        *to++ = n > 0 ? '#' : *name;
        name += n > 0 ? n : 1;
    }
    *to = '\0';
}

/* Names of one kind become one: a job's id, a digest, a random suffix, a process id. */
static void simplify(char *name)
{
    char *tmp = strstr(name, ".tmp");

    if (tmp)
        tmp[strlen(".tmp")] = '\0';
    if (strspn(name, "0123456789abcdef") == 64) {
        strcpy(name, "DIGEST");
    } else if (strncmp(name, "j-", 2) == 0) {
        size_t id = strcspn(name, ".");

        memmove(name + 2, name + id, strlen(name + id) + 1);
    } else if (strncmp(name, "psgd-", 5) == 0) {
        strcpy(name, "psgd-");
    } else {
        hide_numbers(name);
    }
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

static void add_to_log(const char *point)
{
    char line[sizeof wanted + 1];
    int n = snprintf(line, sizeof line, "%s\n", point);

    syscall(SYS_write, log_fd, line, (size_t)n);
}

static void die(void)
{
    kill(owner, SIGKILL);
    for (;;)
        pause();
}

/* Returns whether this is the point at which the process ends; ends it, if that is before the call. */
static bool come_to(const char *call, const char *path)
{
    char name[NAME_MAX + 1], point[sizeof wanted];

    if ((!wanted[0] && log_fd < 0) || getpid() != owner)
        return false;
    snprintf(name, sizeof name, "%.200s", base_name(path));
    simplify(name);
    snprintf(point, sizeof point, "%s/%s", call, name);
    if (log_fd >= 0)
        add_to_log(point);
    if (strcmp(point, wanted) != 0 || atomic_fetch_add(&count, 1) + 1 != wanted_count)
        return false;
    if (wanted_moment == BEFORE)
        die();
    return true;
}

/* The same for a descriptor. Pipes and terminals are no points. */
static bool come_to_fd(const char *call, int fd)
{
    char path[PATH_MAX];

    if (!wanted[0] && log_fd < 0)
        return false;
    if (wanted[0] && log_fd < 0 && strncmp(wanted, call, strcspn(wanted, "/")) != 0)
        return false;
    preload_path_of(fd, path);
    if (strncmp(path, "socket:", 7) == 0)
        return come_to(call, "socket");
    return path[0] == '/' && strncmp(path, "/dev/", 5) != 0 && strncmp(path, "/proc/", 6) != 0 &&
           come_to(call, path);
}

/* The function `name` with a point at its call. */
#define POINT(name, params, args, arrived)                                                                   \
    int name params                                                                                          \
    {                                                                                                        \
        bool is_last;                                                                                        \
        int rc;                                                                                              \
        REAL(name);                                                                                          \
        is_last = arrived;                                                                                   \
        rc = real args;                                                                                      \
        if (is_last)                                                                                         \
            die();                                                                                           \
        return rc;                                                                                           \
    }

POINT(fsync, (int fd), (fd), come_to_fd("fsync", fd))
POINT(fdatasync, (int fd), (fd), come_to_fd("fdatasync", fd))
POINT(ftruncate, (int fd, off_t len), (fd, len), come_to_fd("ftruncate", fd))
POINT(rename, (const char *from, const char *to), (from, to), come_to("rename", to))
POINT(renameat, (int a, const char *from, int b, const char *to), (a, from, b, to), come_to("rename", to))
POINT(linkat, (int a, const char *from, int b, const char *to, int flags), (a, from, b, to, flags),
      come_to("link", to))
POINT(symlink, (const char *target, const char *path), (target, path), come_to("symlink", path))
POINT(unlink, (const char *path), (path), come_to("unlink", path))
POINT(unlinkat, (int fd, const char *path, int flags), (fd, path, flags), come_to("unlink", path))
POINT(mkdir, (const char *path, mode_t mode), (path, mode), come_to("mkdir", path))

/* A write that is killed half-way, or after it. */
#define WRITE(name, params, whole, half, fd)                                                                 \
    ssize_t name params                                                                                      \
    {                                                                                                        \
        bool is_last;                                                                                        \
        ssize_t n;                                                                                           \
        REAL(name);                                                                                          \
        is_last = come_to_fd(#name, fd);                                                                     \
        n = is_last && wanted_moment == HALF ? real half : real whole;                                       \
        if (is_last)                                                                                         \
            die();                                                                                           \
        return n;                                                                                            \
    }

WRITE(write, (int fd, const void *b, size_t len), (fd, b, len), (fd, b, len / 2), fd)
WRITE(writev, (int fd, const struct iovec *v, int n_parts), (fd, v, n_parts),
      (fd, &(struct iovec){v->iov_base, v->iov_len / 2}, 1), fd)
WRITE(pwrite, (int fd, const void *b, size_t len, off_t at), (fd, b, len, at), (fd, b, len / 2, at), fd)
WRITE(send, (int fd, const void *b, size_t len, int flags), (fd, b, len, flags), (fd, b, len / 2, flags), fd)
WRITE(sendmsg, (int fd, const struct msghdr *m, int flags), (fd, m, flags), (fd, m, flags), fd)

/* Opening is a point where it creates a file. */
static int open_at(int dir, const char *path, int flags, mode_t mode)
{
    bool is_last = (flags & O_CREAT) && come_to("create", path);
    int fd = real_open_at(dir, path, flags, mode);

    if (is_last)
        die();
    return fd;
}

OPEN_FUNCTIONS
