/* address -- classifies IP addresses. */
#ifndef PSGD_ADDRESS_H
#define PSGD_ADDRESS_H

#include <stdbool.h>
#include <sys/socket.h>

/* Whether this is a loopback address, which reaches only this machine. */
bool address_is_loopback(const struct sockaddr *a);

#endif
