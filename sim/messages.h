/* messages -- messages in transit in a simulation. They are allocated by the hundred, reused, and placed
 * two cache lines apart: with millions of them, memory access is the bottleneck of a simulation. */
#ifndef PSGD_SIM_MESSAGES_H
#define PSGD_SIM_MESSAGES_H

#include "runner/mesh/mesh.h"
#include "sim/queue.h"

struct sim_message {
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

struct sim_messages {
    struct sim_message *free;
    struct sim_messages_block *blocks;
};

struct sim_message *sim_message_take(struct sim_messages *l, struct err *e); /* NULL: no memory */
void sim_message_put(struct sim_messages *l, struct sim_message *message);   /* and its reference */
void sim_messages_clear(struct sim_messages *l); /* frees all, also those in use */

#endif
