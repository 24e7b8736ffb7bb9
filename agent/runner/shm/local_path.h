/* local_path -- nodes that are linked and all run on one machine share memory (rendezvous.h). Each tells
 * those it is linked to whether it can, once, over the mesh.
 *
 *   local_path_begin(&p, mesh, &cfg, &e);
 *   until it is settled: local_path_on_message for each FRAME_LOCAL, local_path_on_end for each MESH_LOST and
 *   MESH_LEFT, local_path_advance after each poll
 *   local_path_take
 *
 * Until then nothing else is heard of a peer that has told: it may be at its first steps already. */
#ifndef PSGD_LOCAL_PATH_H
#define PSGD_LOCAL_PATH_H

#include "agent/runner/mesh/mesh.h"
#include "agent/runner/shm/rendezvous.h"

enum { LOCAL_PATH_BYTES = RENDEZVOUS_NAME_BYTES + RENDEZVOUS_SECRET_BYTES }; /* of the longest message */

struct local_path_config {
    int n_workers, n_servers, node;
    const int *peers; /* (n_peers) that the mesh links this node with */
    size_t n_peers;
    size_t bytes, least, most; /* of memory, as in struct rendezvous_config */
    double join_s;             /* the others are waited for */
};

struct local_path {
    struct mesh *mesh;             /* borrowed */
    int n_workers, n, me;          /* nodes by their slots (mesh.h) */
    bool includes[RENDEZVOUS_MAX]; /* (n): linked to this one */
    struct rendezvous *rendezvous; /* NULL: this node cannot */
    double deadline;               /* clock_now: whoever has not joined by then does not */
    double asked, hung_s;          /* local_path_is_late: when last, and turns that do not count */
    bool has_answered;             /* whether it can: all have joined its memory, or some will not */
    bool all_can;                  /* of those that have said so, this one included */
    int n_awaited;                 /* others that have not said whether they can */
    bool answered[RENDEZVOUS_MAX], can[RENDEZVOUS_MAX];
    struct err why; /* this node cannot, or another */
};

/* Tells the others how to come to this node's memory, or that it cannot. In a job of more than RENDEZVOUS_MAX
 * nodes they have nothing to say to each other, and share nothing. */
int local_path_begin(struct local_path *p, struct mesh *m, const struct local_path_config *cfg,
                     struct err *e);
/* Takes its buffer. ERR_PROTOCOL: not what that peer has to say. */
int local_path_on_message(struct local_path *p, struct mesh_event *ev, struct err *e);
/* That node is lost or has left: nothing more is awaited of it. */
int local_path_on_end(struct local_path *p, int node, struct err *e);
/* At `now`, has this node waited for so many seconds behind the time to join? Asked in each turn of its wait;
 * one of more than 2 s, in which it hung itself, does not count: what was told meanwhile is still to be
 * heard. */
bool local_path_is_late(struct local_path *p, double seconds, double now);
/* Names one who has not told, of those that this node waits for: ERR_TIMEOUT. */
int local_path_late(const struct local_path *p, struct err *e);
/* Who has not told by now cannot; should it tell later, nobody listens. For words alone, which a pair shares
 * or does not: collectives are everybody's. */
int local_path_go_on(struct local_path *p, struct err *e);
int local_path_advance(struct local_path *p, struct err *e);
bool local_path_is_settled(const struct local_path *p);
/* All have come to this node's memory, it to theirs, and it has said so: whoever has read that may use it. */
bool local_path_has_joined(const struct local_path *p);
/* Once it has joined, the meeting, which is the caller's to close; else NULL. */
struct rendezvous *local_path_take(struct local_path *p);

#endif
