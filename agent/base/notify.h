/* notify -- reports writes to files, by one inotify instance for all of them. A user has 128 instances, of
 * all programs together, so an agent that watches no file holds none. */
#ifndef PSGD_NOTIFY_H
#define PSGD_NOTIFY_H

#include <stdbool.h>

#include "shared/base/err.h"
#include "shared/base/loop.h"

/* A watched file; the caller owns the struct, which must live until notify_remove. {0} is not watched. */
struct notify_file {
    void (*written)(void *arg); /* may add and remove files, also its own */
    void *arg;
    int wd; /* of inotify */
    bool on, is_due;
    struct notify_file *next;
};

/* {.loop = L} watches no file. */
struct notify {
    struct loop *loop;
    struct watch watch; /* of the instance, while there are files */
    struct notify_file *files;
};

/* Lets the loop call f->written after writes to the file that `fd` is open on: once for any number of writes,
 * and sometimes for none. Two structs cannot watch the same file. ERR_IO: no instance or no watch is free,
 * and the caller has to poll the file. */
int notify_add(struct notify *n, struct notify_file *f, int fd, struct err *e);

/* Call before closing the file. f->written is not called afterwards, not even for earlier writes. No effect
 * if it is not watched. */
void notify_remove(struct notify *n, struct notify_file *f);

#endif
