/* child -- starts, watches and ends a child process: a compiler, a check of a codec, a simulator. No child
 * outlives the process that started it, however that ends. */
#ifndef PSGD_CHILD_H
#define PSGD_CHILD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "shared/base/err.h"

struct child {
    pid_t pid;
    int fd;          /* readable after it has ended */
    bool is_foreign; /* as in struct child_how */
};

struct child_how {
    char *const *argv;    /* argv[0]: a path, or a name to search in $PATH */
    const char *folder;   /* working directory; NULL: this process' */
    int out, err;         /* its descriptors 1 and 2; negative or not open: /dev/null, as 0 always is */
    int extra;            /* its descriptor 3; 0: none */
    int kept;             /* one that it inherits under the same number, from 4 on; 0: none */
    int cpu_s;            /* limit of processor time; 0: no additional limit */
    uint64_t memory_size; /* limit of address space in bytes; 0: no additional limit */
    /* It runs untrusted code, a user's codec. It gets its own process group, so that signals it sends to
     * its group reach no other process; the process that started it forwards Ctrl-C. */
    bool is_foreign;
    /* Called in the child before it becomes the program, in `folder`, with its descriptors and limits; NULL:
     * nothing. -1 and errno: child_start fails with that. */
    int (*confine)(void *arg);
    void *confine_arg;
};

/* ERR_IO: the program does not exist or cannot be run. ERR_NOMEM. */
int child_start(struct child *c, const struct child_how *how, struct err *e);

/* As fork(), for a child that continues in this program: returns 1 in the child, 0 in the parent, or
 * ERR_IO. */
int child_fork(struct child *c, bool is_foreign, struct err *e);

/* Watches the process that has made the pair of sockets of which `fd` is one. It need not be a child, so that
 * child_wait() and child_end() are not for it; the caller closes c->fd. -1 and errno: ENOTSOCK, `fd` is no
 * socket; ESRCH, the process has ended. */
int child_adopt(struct child *c, int fd);

/* Waits until the child has ended; to wait for other events as well, poll() c->fd first. Returns the status
 * as waitpid(). Kills the processes that a foreign child has left in its group. */
int child_wait(struct child *c);

/* Sends SIGTERM, then SIGKILL after `grace_s` seconds; 0: SIGKILL at once. Returns as child_wait(). */
int child_end(struct child *c, double grace_s);

#endif
