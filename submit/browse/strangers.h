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

/* The caller serializes the calls. Shuts down the oldest connection if it is one too many; whoever owns it
 * closes it then, and calls strangers_remove before. */
void strangers_add(struct strangers *s, int fd);
/* It is closed, or has shown the cookie. One that is not among them is none. */
void strangers_remove(struct strangers *s, int fd);

#endif
