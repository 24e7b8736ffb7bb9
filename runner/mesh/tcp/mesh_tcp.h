/* mesh_tcp -- nodes in different processes, one TCP connection per pair (docs/protocol.md §3). */
#ifndef PSGD_MESH_TCP_H
#define PSGD_MESH_TCP_H

#include "runner/mesh/mesh.h"
#include "runner/mesh/tcp/tcp_dial.h"
#include "runner/shm/sealed.h"
#include "runner/shm/send_pool.h"

/* Connects to the peers that precede this node in the order 0, 1, ..., -2, -3, ..., and accepts the others.
 * mesh_open returns when every connection is established and both of its ends have proved that they hold the
 * key. ERR_LOST, ERR_AUTH, ERR_PROTOCOL and ERR_TIMEOUT name the peer. */
extern const struct mesh_transport mesh_tcp;

/* Accepts descriptors of messages in that peer's memory `theirs` from now on (send_pool.h). The memory must
 * stay mapped until the mesh is closed. */
void mesh_tcp_attach(struct mesh *m, int node, struct sealed theirs);
/* That peer has mapped `mine`, the memory of the mesh's send pool: messages in it are sent to it as
 * descriptors. */
void mesh_tcp_expose(struct mesh *m, int node, struct sealed mine);
/* Long messages are copied to its slots. The pool must be closed after the mesh. */
void mesh_tcp_use_pool(struct mesh *m, struct send_pool *s);

#endif
