/* shelves -- nodes of mesh_nodes.h that say each other long words through shared memory. Whatever fails here
 * fails the test. */
#ifndef PSGD_TEST_SHELVES_H
#define PSGD_TEST_SHELVES_H

#include "agent/runner/shm/shelf.h"
#include "tests/lib/mesh_nodes.h"

struct shelves {
    int n;
    struct shelf *of[MESH_NODES];
};

/* Of the first n of mesh_ids, two at least. */
void shelves_open(struct shelves *s, struct mesh *const nodes[], int n);
void shelves_close(struct shelves *s); /* once the meshes are closed */

#endif
