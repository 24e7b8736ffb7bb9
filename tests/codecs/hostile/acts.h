/* acts -- the acts of hostile.c, by theme, a file with a table for each, and what they share. An act returns
 * 0 if it has succeeded, else errno; it undoes what it has done, and its signals are SIGURG, which does
 * nothing to a process that does not expect it. */
#ifndef PSGD_TEST_HOSTILE_ACTS_H
#define PSGD_TEST_HOSTILE_ACTS_H

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

struct hostile {
    int act, pid; /* pid: of another process of the agent's user */
};

extern const struct hostile *hostile_now;

struct act {
    const char *name;
    int (*run)(void);
};

#define ACT(name)                                                                                            \
    {                                                                                                        \
#name, name                                                                                          \
    }

/* Each ends with an act without a name. */
extern const struct act hostile_files[], hostile_processes[], hostile_network[], hostile_memory[],
    hostile_trainer[], hostile_deadly[];

/* What a system call returned, as the result of an act. */
static inline int result(long rc)
{
    return rc < 0 ? errno : 0;
}

static inline int opens(const char *path, int flags)
{
    int fd = open(path, flags | O_CLOEXEC, 0600);

    if (fd < 0)
        return errno;
    close(fd);
    if (flags & O_CREAT)
        unlink(path);
    return 0;
}

static inline int lists(const char *path)
{
    DIR *d = opendir(path);

    return d ? closedir(d) : errno;
}

static inline int opens_of_parent(const char *name, int flags)
{
    char path[64];

    snprintf(path, sizeof path, "/proc/%d/%s", (int)getppid(), name);
    return opens(path, flags);
}

/* Makes something in the run folder that is not a regular file. */
static inline int made(long rc, const char *name)
{
    int why = errno;

    unlink(name);
    return rc < 0 ? why : 0;
}

#endif
