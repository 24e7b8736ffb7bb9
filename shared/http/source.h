/* source -- whose connection it is: the address of the other end and, within this machine, the user. */
#ifndef PSGD_HTTP_SOURCE_H
#define PSGD_HTTP_SOURCE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

/* An IPv6 address by its first 64 bits, of which one host commonly has all the rest. */
struct source {
    uint8_t address[16]; /* IPv4: as ::ffff:a.b.c.d */
    int64_t uid;         /* of a loopback address; UID_UNKNOWN of any other */
};
#define UID_UNKNOWN (-1)

void source_of(struct source *out, const struct sockaddr *peer);
bool source_is(const struct source *a, const struct source *b);
bool source_has_address(const struct source *a, const struct source *b);

/* A socket for the questions to the kernel (sock_diag(7)), which the caller closes; -1: not permitted. */
int source_uid_open(void);

/* Asks for the socket that this accepted one is connected to: four system calls, so ask only where the answer
 * is needed. Returns UID_UNKNOWN if that process has closed it, if it is in another network namespace, or if
 * diag_fd is -1. */
int64_t source_uid(int diag_fd, int accepted_fd);

#endif
