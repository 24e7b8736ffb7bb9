/* mesh_nodes -- the nodes of a small job in one process, linked by mesh_tcp. Whatever fails here fails the
 * test. */
#ifndef PSGD_TEST_MESH_NODES_H
#define PSGD_TEST_MESH_NODES_H

#include "agent/runner/mesh/mesh.h"
#include "agent/runner/mesh/tcp/mesh_tcp.h"

/* MESH_PATIENCE_S: what only has to happen may take so long, for the machine may be busy. */
enum { MESH_LIMIT = 1 << 20, MESH_NODES = 3, MESH_PATIENCE_S = 60 };
extern const int mesh_ids[MESH_NODES]; /* workers 0 and 1, and server -2 */

/* One node before, while and after it links up. */
struct opening {
    struct mesh_tcp_config cfg;
    struct mesh_peer peers[MESH_NODES];
    struct mesh *mesh; /* NULL: it did not come to that, see e */
    struct err e;
};

/* What each node is told: job j-test01, attempt 1, every pair its key. May be changed before opening_run. */
void opening_prepare(struct opening o[MESH_NODES], double timeout, enum mesh_tls tls);
void opening_keep(struct opening *o, int peer); /* the node links with this peer alone */
void opening_run(struct opening o[MESH_NODES]); /* all at once, each in a thread of its own */
void opening_run_until(struct opening o[MESH_NODES],
                       int one); /* the others give up once this one has ended */
/* For one thread: of a struct opening. */
void *opening_run_one(void *opening);
void *opening_close_one(void *opening); /* waits until the peers have heard the good-bye */

/* Nodes 0 and 1 alone. */
struct pair {
    struct opening o[2];
    int port; /* node 0's */
};

void pair_prepare(struct pair *p);
void pair_run(struct pair *p); /* both meshes stand */
void pair_close(struct pair *p);

/* A word of `len` bytes, each `fill`. */
void send_bytes(struct mesh *m, int to, uint64_t round, size_t len, int fill);
double seconds_until_event(struct mesh *m, struct mesh_event *ev); /* MESH_NOTHING after MESH_PATIENCE_S */
/* One poll of 5 ms. Returns how long it took, or 20 ms where it took longer: the rest is not the node's, but
 * other programs' time on a busy machine. */
double poll_shortly(struct mesh *m, struct mesh_event *ev);
/* The sum of such polls until there is an event, or MESH_PATIENCE_S have passed. */
double watched_until_event(struct mesh *m, struct mesh_event *ev);

/* Sockets on this machine, and a frame without its payload: to say what no mesh would. */
int listen_anywhere(int *port); /* does not block */
int connect_to(int port);
void say_frame(int fd, const struct frame *f);
/* A node's first peer, which is opening, linked with a socket that knows the key. */
int raw_link(const struct opening *o);
struct frame raw_word(int from, uint32_t seq); /* an empty one, to node 0 */

#endif
