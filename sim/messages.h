/* letters -- messages under way in a simulation. They are made by the hundred, used again, and lie two cache
 * lines apart: with millions of them under way, memory is what a simulation waits for. */
#ifndef PSGD_SIM_MESSAGES_H
#define PSGD_SIM_MESSAGES_H

#include "agent/runner/mesh/mesh.h"
#include "sim/queue.h"

struct sim_message {
    /* Its keeper's: */
    double at, tail;   /* when it is due; seconds from its first byte to its last one */
    enum sim_what due; /* and as what */
    int from, to;      /* slots */
    uint32_t pair;     /* the mesh's number for its sender and receiver */
    void *lane;
    struct sim_message *next;
    size_t len;
    /* Its receiver's: */
    enum mesh_what kind;   /* MESH_MESSAGE, MESH_LOST, MESH_LEFT */
    struct mesh_head head; /* peer: the sender */
    struct mesh_buf *buf;  /* a reference; NULL: a piece's, or none */
    const void *view;      /* a piece's bytes, its sender's */
    const char *why;       /* MESH_LOST */
};

struct sim_messages {
    struct mesh *pool_owner; /* of their buffers */
    struct sim_message *free;
    struct sim_messages_block *blocks;
};

struct sim_message *sim_message_take(struct sim_messages *l, struct err *e); /* NULL: no memory */
void sim_message_put(struct sim_messages *l, struct sim_message *message);   /* and its reference */
void sim_messages_clear(struct sim_messages *l);                             /* wherever they are */

#endif
