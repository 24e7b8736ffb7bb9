/* strangers -- the connections that have not shown the cookie yet. Any user of this machine can open some,
 * and a server has so many connections only: there are at most 64 of these, and one more ends the oldest. */
#ifndef PSGD_BROWSE_STRANGERS_H
#define PSGD_BROWSE_STRANGERS_H

#include <stddef.h>

enum { STRANGERS = 64 };

struct strangers {      /* {0}: none */
    int fds[STRANGERS]; /* the oldest first; open, and not owned */
    size_t n;
};

/* Adds a connection. If there are 64 already, the oldest is shut down and removed; the owner of its
 * descriptor sees the end of the stream, and closes it. Calls of one list must not overlap. */
void strangers_add(struct strangers *s, int fd);
/* Removes a connection that is about to be closed, or has shown the cookie. Any other is ignored. */
void strangers_remove(struct strangers *s, int fd);

#endif
