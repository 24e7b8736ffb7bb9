/* listen -- the agent's listening socket, and whether its address is allowed. */
#ifndef PSGD_LISTEN_H
#define PSGD_LISTEN_H

#include <stdbool.h>
#include <sys/socket.h>

#include "agent/base/agent_options.h"
#include "shared/base/address.h"

struct listener {
    int fd;
    struct sockaddr_storage at;
    socklen_t len;
    int port;
    char host[64];    /* "127.0.0.1", "::1" */
    char address[80]; /* "127.0.0.1:15387", "[::1]:15387" */
    bool is_loopback, is_any;
    bool allows_plain; /* HTTP without TLS, too */
};

/* ERR_AUTH: not a loopback address, and no token. ERR_USAGE: no such address. ERR_IO: the port is in use. */
int listener_open(struct listener *out, const struct agent_options *opt, struct err *e);

/* The address at which nodes of other machines reach this one's, with port 0: each job's socket is bound to
 * it, with a port of its own. It is that of --data-bind, else --bind: of a name that has several, the first
 * one that this machine has. An address beyond loopback needs no further option: a peer must prove a key of
 * the job before its messages are processed. ERR_USAGE: no such address; ERR_IO: not one of this machine. */
int data_address_find(struct address *out, const struct agent_options *opt, struct err *e);

#endif
