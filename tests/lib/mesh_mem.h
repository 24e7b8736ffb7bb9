/* mesh_mem -- nodes in one process and one thread. A message is delivered when the receiver polls; whose
 * comes next, among the senders that have one waiting, is chosen by seed, so that a test can try many timings
 * and repeat each. poll never waits: nothing can happen while it does. */
#ifndef PSGD_TEST_MESH_MEM_H
#define PSGD_TEST_MESH_MEM_H

#include "agent/runner/mesh/mesh.h"

struct mesh_mem; /* the network */

/* A network of n_workers workers and n_servers servers. NULL: no memory. */
struct mesh_mem *mesh_mem_new(int n_workers, int n_servers, size_t limit, uint64_t seed);
void mesh_mem_free(struct mesh_mem *net); /* after the nodes' meshes are closed */
struct mesh *mesh_mem_node(struct mesh_mem *net, int node);
/* The node is lost to all others; what it sent still arrives. */
void mesh_mem_kill(struct mesh_mem *net, int node);

#endif
