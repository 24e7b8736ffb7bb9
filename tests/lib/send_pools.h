/* shelves -- nodes of mesh_nodes.h that say each other long words through shared memory. Whatever fails here
 * fails the test. */
#ifndef PSGD_TEST_SEND_POOLS_H
#define PSGD_TEST_SEND_POOLS_H

#include "agent/runner/shm/send_pool.h"
#include "tests/lib/mesh_nodes.h"

struct send_pools {
    int n;
    struct send_pool *of[MESH_NODES];
};

/* Of the first n of mesh_ids, two at least. */
void send_pools_open(struct send_pools *s, struct mesh *const nodes[], int n);
void send_pools_close(struct send_pools *s); /* once the meshes are closed */

#endif
