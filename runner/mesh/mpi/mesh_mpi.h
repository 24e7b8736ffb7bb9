/* mesh_mpi -- nodes as processes of MPI, where a launcher has started them as such. It is compiled once for
 * each MPI of the machine (mpicc_probe.sh), into a shared object that only a job with --transport mpi loads
 * (runner/mesh/mpi_library.h).
 *
 * Node k is the process with rank mesh_slot(n_workers, k) of MPI_COMM_WORLD; its messages go through a
 * communicator of its own. A message is a head, the frame of docs/protocol.md with up to LEAD_MAX bytes of
 * the payload, and a body, the rest of it, in pieces, as MPI counts bytes by an int.
 *
 * A peer may have WINDOW messages under way to this node: so many receives of heads are posted. It sends the
 * next one when it knows that an earlier one is delivered, from the field `ack` of a frame, or from a
 * FRAME_ACK. So no sender fills a receiver's memory, or waits for it while there is room. All calls but those
 * of opening return at once: MPI makes progress in mesh_poll, and in mesh_send.
 *
 * MPI does not report the loss of a process; its launcher ends the others. It is not encrypted.
 *
 * mesh_open first starts MPI, once in a process, which waits without a deadline until all processes have done
 * so; a signal does not end that wait. The deadline counts from then on. ERR_CONFIG: MPI has another number
 * of processes, or another rank for this node. ERR_PROTOCOL, ERR_TIMEOUT name the peer.
 *
 * mesh_close waits until every peer has received the BYE frame, and ends all processes by MPI_Abort if one
 * has not by the deadline. Then it waits, beyond the deadline unless it is interrupted, until all nodes close
 * their meshes, as no process of MPI can end before the others. MPI itself is ended when the process exits,
 * unless a caller has started it before the first mesh_open. */
#ifndef PSGD_MESH_MPI_H
#define PSGD_MESH_MPI_H

#include "runner/mesh/mesh.h"

enum { MESH_MPI_PIECE = 256 << 20 };

struct mesh_mpi_address {
    const char *job;
    uint32_t attempt;
    int n_workers, n_servers;
    const int *peers; /* (n_peers): the nodes to which this one connects, and they to it; not copied */
    size_t n_peers;
    size_t piece; /* bytes of a body that MPI gets at once, the same on all nodes: MESH_MPI_PIECE */
};

extern const struct mesh_transport mesh_mpi;

#endif
