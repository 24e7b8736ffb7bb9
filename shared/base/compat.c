#include "shared/base/compat.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shared/base/process.h"

/* Since Linux 5.1 a new system call has the same number on every architecture that psgd supports. */
enum { NR_PIDFD_OPEN = 434, NR_CLOSE_RANGE = 436, NR_OPENAT2 = 437 };

/* As in <linux/openat2.h> and <linux/close_range.h>, which older systems lack. */
struct how {
    uint64_t flags, mode, resolve;
};
enum { NO_XDEV = 0x01, NO_MAGICLINKS = 0x02, NO_SYMLINKS = 0x04, BENEATH = 0x08 };
enum { AT_EXEC = 1 << 2 };

enum { LOOK_MS = 100 };

static bool is_lacking(int why)
{
    return why == ENOSYS || why == EPERM;
}

static int fails(int why)
{
    errno = why;
    return -1;
}

/* A process watched by a thread, which owns this struct; the caller owns the pipe's read end. */
struct watched {
    pid_t pid; /* a child; 0: another process, by stat_fd */
    int stat_fd, notify_fd;
};

static void watched_free(struct watched *w)
{
    if (w->stat_fd >= 0)
        close(w->stat_fd);
    if (w->notify_fd >= 0)
        close(w->notify_fd);
    free(w);
}

/* Only ESRCH means that it has ended: a kernel short of memory must not end a job. */
static bool process_has_ended(int stat_fd)
{
    struct process p;

    return process_read(&p, stat_fd) ? p.has_ended : errno == ESRCH;
}

/* WNOWAIT: the process stays a zombie, with its pid, until its parent waits for it. A byte reports the end,
 * not end of file: processes forked meanwhile hold the pipe open. */
static void *watch_process(void *arg)
{
    struct watched *w = arg;
    struct pollfd reader = {.fd = w->notify_fd}; /* POLLERR after the read end is closed */
    siginfo_t info;

    if (w->pid)
        while (waitid(P_PID, (id_t)w->pid, &info, WEXITED | WNOWAIT) < 0 && errno == EINTR)
            continue;
    else
        while (!process_has_ended(w->stat_fd) && poll(&reader, 1, LOOK_MS) <= 0)
            continue;
    while (write(w->notify_fd, "", 1) < 0 && errno == EINTR)
        continue;
    watched_free(w);
    return NULL;
}

/* The thread blocks all signals: handlers run on other threads, and SIGPIPE must not end the process. */
static int watch_start(struct watched *w)
{
    sigset_t all, before;
    pthread_t thread;
    int rc;

    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    rc = pthread_create(&thread, NULL, watch_process, w);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rc == 0)
        pthread_detach(thread);
    return rc;
}

/* If the process has already ended, the descriptor is readable on return, as a pidfd. */
static int watch_open(pid_t pid)
{
    struct watched *w = malloc(sizeof *w);
    siginfo_t info = {0};
    bool is_child, is_over;
    int fds[2], why;

    if (!w)
        return fails(ENOMEM);
    is_child = waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0;
    *w = (struct watched){
        .pid = is_child ? pid : 0, .stat_fd = is_child ? -1 : process_open(pid), .notify_fd = -1};
    why = errno;
    if (!is_child && w->stat_fd < 0) {
        watched_free(w);
        return fails(why == ENOENT ? ESRCH : why);
    }
    is_over = is_child ? info.si_pid == pid : process_has_ended(w->stat_fd);
    if (pipe2(fds, O_CLOEXEC) < 0) {
        why = errno;
        watched_free(w);
        return fails(why);
    }
    w->notify_fd = fds[1];
    if (is_over) {
        watch_process(w);
        return fds[0];
    }
    why = watch_start(w);
    if (why == 0)
        return fds[0];
    watched_free(w);
    close(fds[0]);
    return fails(why);
}

int compat_pidfd_open(pid_t pid)
{
    long fd = syscall(NR_PIDFD_OPEN, pid, 0);

    return fd < 0 && is_lacking(errno) ? watch_open(pid) : (int)fd;
}

static bool leads_up(const char *path)
{
    const char *dots = path;

    if (*path == '/')
        return true;
    while ((dots = strstr(dots, "..")) != NULL) {
        if ((dots == path || dots[-1] == '/') && (dots[2] == '/' || !dots[2]))
            return true;
        dots++;
    }
    return false;
}

/* State of a walk down from one folder. */
struct walk {
    int from, at; /* `from` belongs to the caller */
    dev_t device;
};

/* O_PATH does not call a device's driver or a FUSE server; the file is opened only after it is known to be
 * on the file system. */
static int opened(const struct walk *w, const char *name, int flags)
{
    int at = openat(w->at, name, O_PATH | O_NOFOLLOW | O_CLOEXEC), fd, why = 0;
    char again[32];
    struct stat st;

    if (at < 0)
        return -1;
    if (fstat(at, &st) < 0)
        why = errno;
    else if (S_ISLNK(st.st_mode)) /* O_PATH opens the link itself */
        why = ELOOP;
    else if (st.st_dev != w->device)
        why = EXDEV;
    if (why) {
        close(at);
        return fails(why);
    }
    if (flags & O_PATH)
        return at;
    snprintf(again, sizeof again, "/proc/self/fd/%d", at);
    fd = open(again, flags | O_CLOEXEC);
    why = errno;
    close(at);
    return fd < 0 ? fails(why) : fd;
}

/* Walks one component; an empty one changes nothing. */
static int walk_step(struct walk *w, const char *component, size_t len, int flags)
{
    char name[NAME_MAX + 1] = ".";
    int next, why;

    if (len > NAME_MAX) {
        next = fails(ENAMETOOLONG);
    } else {
        if (len > 0) {
            memcpy(name, component, len);
            name[len] = '\0';
        }
        next = opened(w, name, flags);
    }
    why = errno;
    if (w->at != w->from)
        close(w->at);
    w->at = next;
    errno = why;
    return next;
}

static int open_by_component(int dir_fd, const char *path, int flags)
{
    struct walk w = {.from = dir_fd, .at = dir_fd};
    const char *slash;
    struct stat st;

    if (!*path)
        return fails(ENOENT);
    if (fstat(dir_fd, &st) < 0)
        return -1;
    w.device = st.st_dev;
    for (; (slash = strchr(path, '/')) != NULL; path = slash + 1)
        if (walk_step(&w, path, (size_t)(slash - path), O_PATH) < 0)
            return -1;
    return walk_step(&w, path, strlen(path), flags);
}

int compat_open_beneath(int dir_fd, const char *path, int flags)
{
    const struct how how = {.flags = (uint64_t)(flags | O_CLOEXEC),
                            .resolve = BENEATH | NO_SYMLINKS | NO_MAGICLINKS | NO_XDEV};
    long fd;

    if (leads_up(path))
        return fails(EXDEV);
    fd = syscall(NR_OPENAT2, dir_fd, path, &how, sizeof how);
    return fd < 0 && is_lacking(errno) ? open_by_component(dir_fd, path, flags) : (int)fd;
}

static void close_one(int fd, bool at_exec)
{
    if (at_exec)
        fcntl(fd, F_SETFD, FD_CLOEXEC);
    else
        close(fd);
}

/* Uses getdents64 and not readdir(), which allocates memory. Entries are in ascending order, and the kernel
 * continues after the last number that it listed, so that closing listed descriptors skips none. */
static bool close_listed(int first, bool at_exec)
{
    union {
        struct dirent64 entry;
        char bytes[4096];
    } buf;
    int dir = open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    long n;

    if (dir < 0)
        return false;
    while ((n = syscall(SYS_getdents64, dir, &buf, sizeof buf)) > 0)
        for (long at = 0; at < n;) {
            const struct dirent64 *d = (const struct dirent64 *)(const void *)(buf.bytes + at);
            int fd = d->d_name[0] == '.' ? -1 : atoi(d->d_name);

            if (fd >= first && fd != dir)
                close_one(fd, at_exec);
            at += d->d_reclen;
        }
    close(dir);
    return n == 0;
}

void compat_close_from(int first, bool at_exec)
{
    struct rlimit most;

    /* On any error, also EINVAL for a flag newer than the call. */
    if (syscall(NR_CLOSE_RANGE, first, ~0u, at_exec ? AT_EXEC : 0) == 0 || close_listed(first, at_exec) ||
        getrlimit(RLIMIT_NOFILE, &most) < 0)
        return;
    for (rlim_t fd = (rlim_t)first; fd < most.rlim_cur; fd++)
        close_one((int)fd, at_exec);
}
