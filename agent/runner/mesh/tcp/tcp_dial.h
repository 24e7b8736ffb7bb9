/* tcp_dial -- makes the sockets of a mesh's connections and finds their addresses. A node with a monitor asks
 * it to do so (monitor/monitor.h), because the codec's process may make none; a mesh of other processes does
 * it itself. */
#ifndef PSGD_TCP_DIAL_H
#define PSGD_TCP_DIAL_H

#include <stdbool.h>
#include <sys/socket.h>

#include "shared/err.h"

struct tcp_place {
    struct sockaddr_storage at;
    socklen_t len;
    bool is_local; /* this machine's */
};

/* Who makes the sockets; `node` is a peer. */
struct tcp_dialer {
    int (*find)(void *owner, int node, struct tcp_place *out, struct err *e); /* as tcp_find */
    int (*dial)(void *owner, int node);                                       /* as tcp_dial */
    void *owner;                                                              /* their first argument */
};

/* Resolves an address; waits for name servers. ERR_LOST. */
int tcp_find(struct tcp_place *out, int node, const char *host, int port, struct err *e);
/* Starts to connect. Returns a non-blocking socket with its options set, connected or connecting, or -1 and
 * sets errno. */
int tcp_dial(const struct tcp_place *p);

/* Sets the options of a socket that was accepted. */
void tcp_tune_accepted(int fd, bool is_local);
/* Reads what tcp_tune_accepted needs of the system, by a socket; else its first call does. */
void tcp_learn_system(void);

/* Whether two addresses are those of one machine: equal, or both loopback. */
bool tcp_is_one_machine(const struct sockaddr_storage *a, const struct sockaddr_storage *b);

#endif
