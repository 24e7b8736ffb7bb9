/* child -- a program that this one starts, watches and ends: a compiler, a check of a codec, a simulator.
 * None outlives the process that started it, however that ends. */
#ifndef PSGD_CHILD_H
#define PSGD_CHILD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "shared/err.h"

struct child {
    pid_t pid;
    int fd;          /* readable once it has ended */
    bool is_foreign; /* as in struct child_how */
};

struct child_how {
    char *const *argv;    /* argv[0]: a path, or a name that $PATH is searched for */
    const char *folder;   /* that it runs in; NULL: this one's */
    int out, err;         /* its descriptors 1 and 2; one that is not open: /dev/null, as 0 always is */
    int extra;            /* its descriptor 3; 0: it has none */
    int cpu_s;            /* processor time that it may take; 0: no limit of its own */
    uint64_t memory_size; /* bytes, likewise */
    /* It runs code that nobody has looked at, a user's codec: in a process group of its own, so that what it
     * sends its group reaches nobody else, and Ctrl-C reaches it through who started it. */
    bool is_foreign;
};

/* ERR_IO: there is no such program, or it cannot be run. ERR_NOMEM. */
int child_start(struct child *c, const struct child_how *how, struct err *e);

/* As fork(), for a child that goes on in this program: 1 in it, 0 in the parent, or ERR_IO. */
int child_fork(struct child *c, bool is_foreign, struct err *e);

/* Waits for its end, in poll() on c->fd where something else is waited for as well. Returns the status as
 * waitpid() has it. What a foreign one has started and left behind in its group is ended, too. */
int child_wait(struct child *c);

/* Asks it to end with SIGTERM, and ends it with SIGKILL after `grace_s`; 0: at once.
 * Returns as child_wait(). */
int child_end(struct child *c, double grace_s);

#endif
