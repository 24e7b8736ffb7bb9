/* transport_kinds -- how the nodes of a job exchange messages (--transport): a line here for each, and an
 * implementation of runner/mesh/mesh.h.
 *
 *   tcp   a connection between each two nodes, encrypted between machines
 *   mpi   the messages of MPI, whose launcher has started the nodes: for a job folder only */
#ifndef PSGD_TRANSPORT_KINDS_H
#define PSGD_TRANSPORT_KINDS_H

#include <stdbool.h>

/* Constant, name, reports_loss, is_encrypted, allows_isolation, sleeps, reduces. */
#define TRANSPORTS(T)                                                                                        \
    T(TRANSPORT_TCP, "tcp", true, true, true, true, false)                                                   \
    T(TRANSPORT_MPI, "mpi", false, false, false, false, true)

#define TRANSPORT_CONSTANT(constant, ...) constant,
enum transport_kind { TRANSPORTS(TRANSPORT_CONSTANT) TRANSPORT_KINDS };
#undef TRANSPORT_CONSTANT

/* The names, in the order of the enum, as in shared/base/choice.h. */
#define TRANSPORT_CHOICES "tcp|mpi"

struct transport_traits {
    const char *name;
    bool reports_loss;     /* a node learns that another one is lost, and the others can go on */
    bool is_encrypted;     /* between machines */
    bool allows_isolation; /* a node may enter the sandbox: the transport needs no threads, files or calls */
    bool sleeps;           /* a node that waits takes no processor time */
    bool reduces;          /* it has an all-reduce of its own (mesh_reduce) */
};

extern const struct transport_traits transport_traits[TRANSPORT_KINDS];

#endif
