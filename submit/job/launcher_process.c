#include "submit/job/launcher_process.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shared/base/process.h"

enum { ENVIRONMENT_MAX = 1 << 20 };

static bool has_variable(const char *text, size_t n, const char *name)
{
    size_t len = strlen(name);

    for (size_t at = 0; at + len < n; at += strnlen(text + at, n - at) + 1)
        if (strncmp(text + at, name, len) == 0 && text[at + len] == '=')
            return true;
    return false;
}

static bool was_started_with(pid_t pid, const char *name)
{
    char path[64], *text = malloc(ENVIRONMENT_MAX);
    ssize_t got = 1;
    size_t n = 0;
    bool has;
    int fd;

    snprintf(path, sizeof path, "/proc/%ld/environ", (long)pid);
    fd = text ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    while (fd >= 0 && n < ENVIRONMENT_MAX && (got = read(fd, text + n, ENVIRONMENT_MAX - n)) > 0)
        n += (size_t)got;
    if (fd >= 0)
        close(fd);
    has = text && has_variable(text, n, name);
    free(text);
    return has;
}

bool launcher_process_name(char *out, size_t size, const char *rank)
{
    struct process p;
    pid_t pid = getpid();

    do {
        if (!process_look(&p, pid) || p.parent <= 1)
            return false;
        pid = p.parent;
    } while (was_started_with(pid, rank));
    if (!process_look(&p, pid))
        return false;
    snprintf(out, size, "%ld-%" PRIu64, (long)pid, p.start_ticks);
    return true;
}
