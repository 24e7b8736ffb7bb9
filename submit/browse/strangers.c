#include "submit/browse/strangers.h"

#include <string.h>
#include <sys/socket.h>

void strangers_add(struct strangers *s, int fd)
{
    if (s->n == STRANGERS) {
        shutdown(s->fds[0], SHUT_RDWR);
        strangers_remove(s, s->fds[0]);
    }
    s->fds[s->n++] = fd;
}

void strangers_remove(struct strangers *s, int fd)
{
    for (size_t i = 0; i < s->n; i++) {
        if (s->fds[i] != fd)
            continue;
        s->n--;
        memmove(&s->fds[i], &s->fds[i + 1], (s->n - i) * sizeof *s->fds);
        return;
    }
}
