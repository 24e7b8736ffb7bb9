/* mesh_mem -- a mesh between nodes in one process and one thread. A message is delivered when the receiver
 * polls. The order among senders is chosen by the seed, so that a test can try many timings and repeat
 * each. mesh_poll never waits, as no other node can run meanwhile. */
#ifndef PSGD_TEST_MESH_MEM_H
#define PSGD_TEST_MESH_MEM_H

#include "runner/mesh/mesh.h"

struct mesh_mem; /* the network */

/* A network of n_workers workers and n_servers servers. NULL: out of memory. */
struct mesh_mem *mesh_mem_new(int n_workers, int n_servers, size_t limit, uint64_t seed);
void mesh_mem_free(struct mesh_mem *net); /* after closing the nodes' meshes */
struct mesh *mesh_mem_node(struct mesh_mem *net, int node);
/* The node is lost to all others; messages that it sent still arrive. */
void mesh_mem_kill(struct mesh_mem *net, int node);

#endif
