/* listen -- the agent's listening socket, and whether its address is allowed. */
#ifndef PSGD_LISTEN_H
#define PSGD_LISTEN_H

#include <stdbool.h>

#include "agent/base/agent_options.h"
#include "shared/base/address.h"

struct listener {
    int fd;
    struct address at;
    int port;
    char host[64];    /* "127.0.0.1", "::1" */
    char address[80]; /* "127.0.0.1:15387", "[::1]:15387" */
    bool is_loopback, is_any;
    bool allows_plain; /* also HTTP without TLS */
};

/* ERR_AUTH: --no-token with an address that is not a loopback one. ERR_USAGE: there is no such address.
 * ERR_IO: the port is in use. */
int listener_open(struct listener *out, const struct agent_options *opt, struct err *e);

/* Finds the address at which nodes of other machines reach the nodes of this one, with port 0: each job's
 * socket is bound to it with a port of its own. It is the address of --data-bind, else of --bind; if the name
 * has several, the first one that this machine has. An address beyond loopback needs no further option, as a
 * peer must prove a key of the job before its messages are processed. ERR_USAGE: there is no such address;
 * ERR_IO: it is not one of this machine. */
int data_address_find(struct address *out, const struct agent_options *opt, struct err *e);

#endif
