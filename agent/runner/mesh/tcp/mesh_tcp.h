/* mesh_tcp -- nodes in different processes, one TCP connection per pair (docs/protocol.md §3). */
#ifndef PSGD_MESH_TCP_H
#define PSGD_MESH_TCP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/runner/mesh/mesh.h"
#include "agent/runner/shm/sealed.h"
#include "shared/flag.h"

enum { MESH_KEY_BYTES = 32 };
/* Which links are encrypted; automatically: those that leave the machine. */
enum mesh_tls { MESH_TLS_AUTO, MESH_TLS_ON, MESH_TLS_OFF };

struct mesh_peer {
    int node;
    char host[256];
    int port;
    uint8_t key[MESH_KEY_BYTES]; /* that only this node and the peer hold */
};

struct mesh_tcp_config {
    const char *job; /* its id; must outlive the mesh, which shows it again when a connection has broken */
    uint32_t attempt;
    int node;
    int listen_fd; /* bound and listening; mesh_tcp_open takes it, also on failure, and keeps it open */
    const struct mesh_peer *peers; /* every node this one talks to, itself left out */
    size_t n_peers;
    enum mesh_tls tls;
    size_t limit;    /* bytes of the longest payload */
    double deadline; /* by which every link must stand */
    /* Set by a signal handler: opening gives up with ERR_CANCELLED, closing waits for nobody. Must outlive
     * the mesh. */
    const atomic_bool *interrupted;
};

/* Connects to the peers that come earlier in the order 0, 1, ..., -2, -3, ..., and accepts the later ones.
 * Returns when every link stands and both ends of each have shown that they hold its key. ERR_LOST, ERR_AUTH,
 * ERR_PROTOCOL, ERR_TIMEOUT name the peer. */
int mesh_tcp_open(struct mesh **out, const struct mesh_tcp_config *cfg, struct err *e);

/* What that peer says may from now on lie in its memory, of which slips tell (send_pool.h). Until the mesh is
 * closed. */
void mesh_tcp_attach(struct mesh *m, int node, struct sealed theirs);
/* That peer has borrowed `mine`, where m->shelf is: what lies there goes to it as a slip. */
void mesh_tcp_expose(struct mesh *m, int node, struct sealed mine);

#endif
