/* mesh_sim -- the data plane of a simulation: all nodes of a job in one process and one thread. Sent
 * messages are kept until the wires' model (wires.h) or the search of all orders (explore.h) delivers them.
 * A message is never copied: its buffer or view is passed on, and all nodes share one pool of buffers. */
#ifndef PSGD_SIM_MESH_SIM_H
#define PSGD_SIM_MESH_SIM_H

#include "runner/mesh/mesh.h"
#include "sim/queue.h"

struct mesh_sim; /* the network */

struct sim_message { /* in transit */
    /* Used by the wires or the search that keep it: */
    double at, tail;   /* due time; seconds from its first byte to its last one */
    enum sim_what due; /* event at that time */
    int from, to;      /* slots */
    uint32_t pair;     /* the mesh's number for its sender and receiver */
    void *lane;
    struct sim_message *next;
    size_t len;
    /* Used by its receiver: */
    enum mesh_event_kind kind; /* MESH_MESSAGE, MESH_LOST, MESH_LEFT */
    struct mesh_head head;     /* peer: the sender */
    struct mesh_buf *buf;      /* a reference; NULL: a chunk, or no payload */
    const void *view;          /* bytes of a chunk, owned by its sender */
    const char *why;           /* MESH_LOST */
};

struct mesh_sim_config {
    int n_workers, n_servers;
    bool is_star;       /* only workers and servers are linked with each other ... */
    bool links_servers; /* ... and servers with servers */
    size_t limit;
    /* Keeps the message until mesh_sim_deliver(); messages of one sender to one receiver must be delivered
     * in order. */
    int (*carry)(void *owner, struct sim_message *m, struct err *e);
    /* A queue of that node, which was refused a message, has become shorter. May be NULL. */
    void (*on_room)(void *owner, int slot);
    /* The receiver has taken a message. May be NULL. */
    void (*on_taken)(void *owner, const struct sim_message *m);
    void *owner;
};

int mesh_sim_new(struct mesh_sim **out, const struct mesh_sim_config *cfg, struct err *e);
/* Call it after the nodes' exchanges are detached. Also frees messages not yet delivered. */
void mesh_sim_free(struct mesh_sim *net);
struct mesh *mesh_sim_node(struct mesh_sim *net, int slot);

void mesh_sim_deliver(struct mesh_sim *net,
                      struct sim_message *m); /* returned by the receiver's next polls */
/* The node leaves, as mesh_close(). Its good-bye goes to servers, and to the workers that it has sent to or
 * received from: between all pairs of thousands of nodes good-byes would take most of the memory. Another
 * node gets it when it sends to this one, or by mesh_sim_tell(). ERR_NOMEM. */
int mesh_sim_leave(struct mesh_sim *net, int slot, struct err *e);
/* Sends the node the good-byes that it has not got. Returns how many, or a code. */
int mesh_sim_tell(struct mesh_sim *net, int slot, struct err *e);
/* The node is lost to all nodes it was linked to, after the messages it has sent. */
int mesh_sim_kill(struct mesh_sim *net, int slot, struct err *e);
/* Two nodes are lost to each other, reported by their next polls. */
int mesh_sim_part(struct mesh_sim *net, int a, int b, struct err *e);
bool mesh_sim_has_event(const struct mesh_sim *net, int slot); /* whether a poll would return an event */
uint64_t mesh_sim_messages(const struct mesh_sim *net);        /* delivered so far */
uint64_t mesh_sim_good_byes(const struct mesh_sim *net);       /* sent so far */
uint64_t mesh_sim_queued(const struct mesh_sim *net);          /* sent, and not taken yet by a poll */

#endif
