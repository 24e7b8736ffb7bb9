/* send_pools -- nodes of mesh_nodes.h that exchange long messages through shared memory. Any failure here
 * fails the test. */
#ifndef PSGD_TEST_SEND_POOLS_H
#define PSGD_TEST_SEND_POOLS_H

#include "runner/shm/send_pool.h"
#include "tests/lib/mesh_nodes.h"

struct send_pools {
    int n;
    struct send_pool *of[MESH_NODES];
};

/* For the first n nodes of mesh_ids, n >= 2. */
void send_pools_open(struct send_pools *s, struct mesh *const nodes[], int n);
void send_pools_close(struct send_pools *s); /* after closing the meshes */

#endif
