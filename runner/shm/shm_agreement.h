/* shm_agreement -- connected nodes agree whether they share memory (rendezvous.h): all of them, if they run
 * on one machine, or the nodes of each machine. Each node reports to each of its peers once, over the mesh,
 * whether it can.
 *
 *     shm_agreement_begin(&a, mesh, &cfg, &e);
 *     until shm_agreement_is_settled:
 *         shm_agreement_on_message for each FRAME_LOCAL
 *         shm_agreement_on_end for each MESH_LOST and MESH_LEFT
 *         shm_agreement_advance after each mesh_poll
 *     shm_agreement_take
 *
 * Until it is settled, peers that have reported are paused: they may already train. */
#ifndef PSGD_SHM_AGREEMENT_H
#define PSGD_SHM_AGREEMENT_H

#include "runner/mesh/mesh.h"
#include "runner/shm/rendezvous.h"

enum { SHM_AGREEMENT_BYTES = RENDEZVOUS_NAME_BYTES + RENDEZVOUS_SECRET_BYTES }; /* of the longest message */

struct shm_agreement_config {
    int n_workers, n_servers, node;
    const int *peers; /* (n_peers) nodes that the mesh connects this node to */
    size_t n_peers;
    size_t bytes, min_bytes, max_bytes; /* as in struct rendezvous_config */
    double join_s;                      /* seconds until `deadline` */
    /* (n_workers): for each worker the first one on its machine; only those of one machine share. NULL: all
     * nodes do. */
    const int *machines;
    const struct shm_source *source; /* borrowed; NULL: this process's own */
};

struct shm_agreement {
    struct mesh *mesh;             /* borrowed */
    int n_workers, n, me;          /* nodes are indexed by mesh_slot */
    bool includes[RENDEZVOUS_MAX]; /* (n): connected to this node */
    int place[RENDEZVOUS_MAX];     /* (n): its index in the rendezvous; -1: it is not in this node's */
    int n_places;                  /* 1: this node is alone on its machine, and needs no rendezvous */
    struct rendezvous *rendezvous; /* NULL: this node cannot share memory, or is alone */
    bool cannot;
    double deadline;               /* clock_now: if a peer has not joined by then, this node cannot share */
    double polled_at, suspended_s; /* of shm_agreement_is_late: its last call; seconds that do not count */
    bool has_answered; /* this node has reported: all peers have joined its memory, or it cannot share */
    bool all_can;      /* all nodes that have reported can share memory, this one included */
    int n_awaited;     /* peers that have not reported */
    bool answered[RENDEZVOUS_MAX], can[RENDEZVOUS_MAX];
    struct err why; /* the reason why a node cannot share memory */
};

/* Invites the peers to this node's memory, or reports that it cannot share. Jobs of more than
 * RENDEZVOUS_MAX nodes exchange no messages and share no memory. */
int shm_agreement_begin(struct shm_agreement *a, struct mesh *m, const struct shm_agreement_config *cfg,
                        struct err *e);
/* Handles a FRAME_LOCAL; releases its buffer. ERR_PROTOCOL: a message that this peer may not send now. */
int shm_agreement_on_message(struct shm_agreement *a, struct mesh_event *ev, struct err *e);
/* That node is lost or has left: it counts as unable to share. */
int shm_agreement_on_end(struct shm_agreement *a, int node, struct err *e);
/* Has this node waited for `seconds` after the deadline, at `now`? Call it in each turn of the wait loop. A
 * turn of more than 2 s does not count: this process was suspended, and has not read the messages that were
 * sent meanwhile. */
bool shm_agreement_is_late(struct shm_agreement *a, double seconds, double now);
/* Sets ERR_TIMEOUT with the name of a peer that has not reported. */
int shm_agreement_late(const struct shm_agreement *a, struct err *e);
/* Stops waiting: peers that have not reported count as unable to share, and later reports are ignored. Only
 * for send pools, where each pair shares or not; collectives need all nodes. */
int shm_agreement_stop_waiting(struct shm_agreement *a, struct err *e);
int shm_agreement_advance(struct shm_agreement *a, struct err *e);
bool shm_agreement_is_settled(const struct shm_agreement *a);
/* All peers have mapped this node's memory, this node has mapped theirs, and has reported that: peers that
 * have read the report may use the memory. */
bool shm_agreement_has_joined(const struct shm_agreement *a);
/* Returns the rendezvous, if this node has joined it, else NULL. The caller closes it. */
struct rendezvous *shm_agreement_take(struct shm_agreement *a);
/* Closes the rendezvous, unless it was taken; also after a failure of shm_agreement_begin. The mesh no longer
 * watches it. */
void shm_agreement_clear(struct shm_agreement *a);

#endif
