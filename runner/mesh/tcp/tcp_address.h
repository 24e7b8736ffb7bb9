/* tcp_address -- what a node's mesh_tcp is opened with: the job, the peers and their keys. */
#ifndef PSGD_TCP_ADDRESS_H
#define PSGD_TCP_ADDRESS_H

#include <stddef.h>
#include <stdint.h>

#include "runner/mesh/tcp/tcp_dial.h"

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
    enum mesh_tls tls;
    const struct tcp_dialer *dialer; /* must outlive the mesh; NULL: the mesh makes its sockets itself */
};

#endif
