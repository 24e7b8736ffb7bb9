/* mesh_nodes -- the nodes of a small job in one process, connected by mesh_tcp. Any failure here fails the
 * test. */
#ifndef PSGD_TEST_MESH_NODES_H
#define PSGD_TEST_MESH_NODES_H

#include <pthread.h>

#include "runner/mesh/mesh.h"
#include "runner/mesh/tcp/tcp_link.h"
#include "runner/monitor/monitor.h"
#include "runner/monitor/monitor_state.h"

/* MESH_TIMEOUT_S: generous, as the machine may be busy. */
enum { MESH_LIMIT = 1 << 20, MESH_NODES = 3, MESH_TIMEOUT_S = 60 };
extern const int mesh_ids[MESH_NODES]; /* workers 0 and 1, and server -2 */

/* One node before, while and after it opens its mesh. */
struct opening {
    struct tcp_config cfg;
    struct mesh_peer peers[MESH_NODES];
    struct mesh *mesh; /* NULL: opening failed, see e */
    struct err e;
};

/* Configures job j-test01, attempt 1, a key for each pair. May be changed before opening_run. */
void opening_prepare(struct opening o[MESH_NODES], double timeout, enum mesh_tls tls);
void opening_keep(struct opening *o, int peer); /* the node connects to this peer only */
void opening_run(struct opening o[MESH_NODES]); /* opens all concurrently, one thread each */
void opening_run_until(struct opening o[MESH_NODES],
                       int one);                    /* interrupts the others once this one has finished */
int opening_open(struct opening *o, struct err *e); /* mesh_open: sets o->mesh */
/* Thread functions; the argument is a struct opening. */
void *opening_run_one(void *opening);
void *opening_close_one(void *opening); /* waits until the peers have acknowledged the BYE */

/* The first peer's name has two addresses: `first`, and 127.0.0.1. */
struct two_addresses {
    struct tcp_dialer dialer;
    struct tcp_places places;
    int first_error; /* errno of every attempt to connect to `first`; 0: the attempt is made */
};

void opening_name(struct opening *o, struct two_addresses *a, const char *first);

/* A node's connections are made as in a job: by its monitor, here a thread. From before it opens its mesh
 * until the mesh is closed. */
struct node_monitor {
    struct monitor_state state;
    struct monitor monitor;
    struct tcp_dialer dialer;
    pthread_t thread;
};

void node_monitor_begin(struct node_monitor *m, struct opening *o);
void node_monitor_end(struct node_monitor *m);

/* Nodes 0 and 1 only. */
struct pair {
    struct opening o[2];
    int port; /* node 0's */
};

void pair_prepare(struct pair *p);
void pair_run(struct pair *p); /* opens both meshes */
void pair_close(struct pair *p);

/* Sends a contribution of `len` bytes, each `fill`. */
void send_bytes(struct mesh *m, int to, uint64_t round, size_t len, int fill);
double seconds_until_event(struct mesh *m, struct mesh_event *ev); /* MESH_NOTHING after MESH_TIMEOUT_S */
/* Polls once, for 5 ms. Returns its duration, at most 20 ms: the rest is time of other programs on a busy
 * machine. */
double poll_shortly(struct mesh *m, struct mesh_event *ev);
/* The sum of such durations until an event, or until MESH_TIMEOUT_S have passed. */
double watched_until_event(struct mesh *m, struct mesh_event *ev);

/* Sockets on this machine, and a frame without payload: to send frames that no mesh would. */
int listen_anywhere(int *port); /* a non-blocking listening socket; sets its port */
int connect_to(int port);
void send_raw_frame(int fd, const struct frame *f);
/* Connects a blocking socket to o's first peer, which is opening or polls, authenticates it with the key, and
 * states that its messages up to number `received` have arrived. */
int raw_link(const struct opening *o, uint32_t received);
struct frame raw_contribution(int from, uint32_t seq); /* empty, to node 0 */

#endif
