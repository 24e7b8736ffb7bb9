/* mesh_sim -- the data plane of a simulation: all nodes of a job in one process and one thread. It keeps
 * what nodes have sent until somebody else, the wires' model (wires.h) or a search through all orders
 * (explore.h), says that it is there. A message is never copied: its buffer, or the view, goes from hand
 * to hand, and all nodes share one pool of buffers. */
#ifndef PSGD_SIM_MESH_SIM_H
#define PSGD_SIM_MESH_SIM_H

#include "sim/messages.h"

struct mesh_sim; /* the network */

struct mesh_sim_config {
    int n_workers, n_servers;
    bool is_star; /* workers talk to servers only, and servers to workers only */
    size_t limit;
    /* Keeps the letter until mesh_sim_deliver; the letters of one sender to one receiver must be delivered
     * in the order in which they came. */
    int (*carry)(void *owner, struct sim_message *l, struct err *e);
    /* That node was told that much waits for a peer, and now it is less. NULL: nobody asks. */
    void (*on_room)(void *owner, int slot);
    /* The receiver has taken a message. NULL: nobody asks. */
    void (*on_taken)(void *owner, const struct sim_message *l);
    void *owner;
};

int mesh_sim_new(struct mesh_sim **out, const struct mesh_sim_config *cfg, struct err *e);
/* After the nodes' exchanges are detached. Letters that are still with their keeper go with it. */
void mesh_sim_free(struct mesh_sim *net);
struct mesh *mesh_sim_node(struct mesh_sim *net, int slot);

void mesh_sim_deliver(struct mesh_sim *net, struct sim_message *l); /* to its receiver's next polls */
/* The node says good-bye: as mesh_close, with a sentence where there is no memory for it. */
int mesh_sim_leave(struct mesh_sim *net, int slot, struct err *e);
/* The node is lost to all it was linked to, behind what it has sent. */
int mesh_sim_kill(struct mesh_sim *net, int slot, struct err *e);
/* Two nodes are lost to each other, and know it at their next polls. */
int mesh_sim_part(struct mesh_sim *net, int a, int b, struct err *e);
bool mesh_sim_has_news(const struct mesh_sim *net, int slot); /* would a poll give something? */
uint64_t mesh_sim_messages(const struct mesh_sim *net);       /* delivered so far */

#endif
