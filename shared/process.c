#include "shared/process.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int process_open(pid_t pid)
{
    char path[64];

    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    return open(path, O_RDONLY | O_CLOEXEC);
}

bool process_read(struct process *out, int fd)
{
    unsigned long long ticks;
    char buf[1024], *p, state;
    long n_threads;
    int parent;
    ssize_t n = pread(fd, buf, sizeof buf - 1, 0);

    if (n < 0)
        return false;
    buf[n] = '\0';
    /* The second field is the program's name and may contain ')': search for the last one. */
    p = strrchr(buf, ')');
    if (!p || sscanf(p + 1, " %c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %ld %*d %llu",
                     &state, &parent, &n_threads, &ticks) != 4) {
        errno = EPROTO;
        return false;
    }
    /* The state is that of its first thread, which may end before the others. */
    *out = (struct process){.start_ticks = ticks,
                            .parent = parent,
                            .has_ended = strchr("ZXx", state) && n_threads <= 1,
                            .is_stopped = strchr("Tt", state)};
    return true;
}

bool process_look(struct process *out, pid_t pid)
{
    int fd = process_open(pid);
    bool is_there = fd >= 0 && process_read(out, fd);

    if (fd >= 0)
        close(fd);
    return is_there;
}

void process_boot(char out[PROCESS_BOOT])
{
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? 0 : read(fd, out, PROCESS_BOOT - 1);

    if (fd >= 0)
        close(fd);
    out[n > 0 ? n : 0] = '\0';
}

bool process_data(uint64_t *bytes, pid_t pid)
{
    unsigned long long pages;
    char path[64], buf[256];
    ssize_t n;
    int fd;

    snprintf(path, sizeof path, "/proc/%d/statm", (int)pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    n = read(fd, buf, sizeof buf - 1);
    close(fd);
    if (n < 0)
        return false;
    buf[n] = '\0';
    if (sscanf(buf, "%*u %*u %*u %*u %*u %llu", &pages) != 1) {
        errno = EPROTO;
        return false;
    }
    *bytes = pages * (uint64_t)sysconf(_SC_PAGESIZE);
    return true;
}
