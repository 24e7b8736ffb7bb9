/* mesh_remote -- the meshes of other processes, for transports that need a process for each node: mpirun
 * starts this test program once more for each, as --rank SOCKET PIECE, which opens a mesh_mpi, and carries
 * out there what the test asks of the mesh here. So the checks of tests/suite/test_mesh.c run over MPI as
 * they are. A process makes progress only while the test polls its mesh, as the others do, and while it
 * closes it. mesh_close returns at once: the processes close their meshes together, until mesh_remotes_end.
 * Any failure here fails the test. */
#ifndef PSGD_TEST_MESH_REMOTE_H
#define PSGD_TEST_MESH_REMOTE_H

#include "tests/lib/mesh_nodes.h"

struct mesh_remotes;

/* The nodes mesh_ids by the mpirun of `mpi`: "openmpi", "mpich". piece: of mesh_mpi_address. NULL: it is not
 * installed, or psgd was built without. */
struct mesh_remotes *mesh_remotes_begin(const char *mpi, size_t piece, struct mesh *out[MESH_NODES]);
/* After the test has closed all meshes. If a node has lost another one, its process does not end by
 * itself. */
void mesh_remotes_end(struct mesh_remotes *r);

/* For main(): is this one of those processes? Then *status is its exit status. */
bool mesh_remote_is_rank(int argc, char **argv, int *status);

#endif
