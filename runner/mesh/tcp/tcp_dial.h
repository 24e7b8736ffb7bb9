/* tcp_dial -- the peers of a node, and the connections to them: finds the addresses of peers and makes the
 * sockets of the connections to them. A node with a monitor has the monitor do that (monitor/monitor.h),
 * because the codec's process may make no sockets; other processes do it themselves. */
#ifndef PSGD_TCP_DIAL_H
#define PSGD_TCP_DIAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "shared/base/address.h"
#include "shared/base/err.h"

/* One address of a peer. */
struct tcp_place {
    struct sockaddr_storage at;
    socklen_t len;
    bool is_local;  /* this machine's */
    uint32_t index; /* among those that tcp_find has found */
};

struct tcp_places {
    uint32_t n;
    struct tcp_place at[ADDRESSES_MAX]; /* in the order in which to try them */
};

/* Which connections are encrypted. MESH_TLS_AUTO: those between machines. */
enum mesh_tls { MESH_TLS_AUTO, MESH_TLS_ON, MESH_TLS_OFF };

/* What a connection is for: messages, or only to find out whether the peer's port is open. */
struct tcp_aim {
    bool is_probe;
    enum mesh_tls tls;
};

/* The functions that make the sockets; `node` is a peer. */
struct tcp_dialer {
    int (*find)(void *owner, int node, struct tcp_places *out, struct err *e); /* as tcp_find */
    /* As tcp_dial, to the place of that index. If the dialer exchanges the HELLOs, it returns -1, or a packet
     * socket on which reports about the connection arrive (struct tcp_link_report); closing it ends the
     * connection. */
    int (*dial)(void *owner, int node, uint32_t index, const struct tcp_aim *aim);
    bool exchanges_hellos; /* it passes on a connection only after the peer's HELLO as a node of this job */
    void *owner;           /* first argument of both */
};

/* What a node's mesh_tcp is opened with. */

enum { MESH_KEY_BYTES = 32 };

struct mesh_peer {
    int node;
    char host[256];
    int port;
    uint8_t key[MESH_KEY_BYTES]; /* known to this node and the peer only */
};

struct mesh_tcp_address {
    const char *job; /* job id; must outlive the mesh, which sends it again in each reconnection */
    uint32_t attempt;
    int listen_fd; /* bound and listening; owned by the mesh from mesh_open on, also on failure */
    const struct mesh_peer *peers; /* (n_peers) all nodes that this one connects to */
    size_t n_peers;
    int n_beside; /* other nodes of the job on this machine, as far as known, connected or not */
    enum mesh_tls tls;
    const struct tcp_dialer *dialer; /* must outlive the mesh; NULL: the mesh makes its sockets itself */
};

/* Resolves a name, to one address or more (address_find); waits for name servers. ERR_LOST. */
int tcp_find(struct tcp_places *out, int node, const char *host, int port, struct err *e);
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
