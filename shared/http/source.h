/* source -- where a connection comes from: the client's address and, on this machine, its user. */
#ifndef PSGD_HTTP_SOURCE_H
#define PSGD_HTTP_SOURCE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

/* Of an IPv6 address only the first 64 bits count, as one host commonly has all addresses with these. */
struct source {
    uint8_t address[16]; /* IPv4: as ::ffff:a.b.c.d */
    int64_t uid;         /* of a loopback address; UID_UNKNOWN of any other */
};
#define UID_UNKNOWN (-1)

void source_of(struct source *out, const struct sockaddr *peer);
bool source_is(const struct source *a, const struct source *b);
bool source_has_address(const struct source *a, const struct source *b);

/* Returns a socket for source_uid (sock_diag(7)), which the caller closes; -1: not permitted. */
int source_uid_open(void);

/* Asks the kernel for the user of the socket at the other end of this accepted one. This costs four system
 * calls, so call only if the user matters. Returns UID_UNKNOWN if the other process has closed its socket, if
 * it is in another network namespace, or if diag_fd is -1. */
int64_t source_uid(int diag_fd, int accepted_fd);

#endif
