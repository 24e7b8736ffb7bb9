/* mpi_library -- loads the transport mesh_mpi (mpi/mesh_mpi.h), which is compiled for each MPI of the machine
 * that builds psgd: transports/openmpi.so and transports/mpich.so beside the program. */
#ifndef PSGD_MPI_LIBRARY_H
#define PSGD_MPI_LIBRARY_H

#include "runner/mesh/mesh.h"

/* `folder`: of the objects, NULL: transports/ beside the program. The MPI is that whose launcher has started
 * this process, by its variables, or PSGD_MPI. It stays loaded. ERR_CONFIG: no launcher of MPI has started
 * it, or psgd was built without this MPI. */
int mpi_library_load(const struct mesh_transport **out, const char *folder, struct err *e);

#endif
