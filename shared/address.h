/* address -- what an IP address says of where its owner is. */
#ifndef PSGD_ADDRESS_H
#define PSGD_ADDRESS_H

#include <stdbool.h>
#include <sys/socket.h>

/* Whether only this machine can be, or be reached through, this address. */
bool address_is_loopback(const struct sockaddr *a);

#endif
