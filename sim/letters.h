/* letters -- messages under way in a simulation. They are made by the hundred, used again, and lie two cache
 * lines apart: with millions of them under way, memory is what a simulation waits for. */
#ifndef PSGD_SIM_LETTERS_H
#define PSGD_SIM_LETTERS_H

#include "agent/runner/mesh/mesh.h"
#include "sim/queue.h"

struct sim_letter {
    /* Its keeper's: */
    double at, tail;   /* when it is due; seconds from its first byte to its last one */
    enum sim_what due; /* and as what */
    int from, to;      /* slots */
    uint32_t pair;     /* the mesh's number for its sender and receiver */
    void *lane;
    struct sim_letter *next;
    size_t len;
    /* Its receiver's: */
    enum mesh_what kind;   /* MESH_MESSAGE, MESH_LOST, MESH_LEFT */
    struct mesh_head head; /* peer: the sender */
    struct mesh_buf *buf;  /* a reference; NULL: a piece's, or none */
    const void *view;      /* a piece's bytes, its sender's */
    const char *why;       /* MESH_LOST */
};

struct sim_letters {
    struct mesh *lender; /* of their buffers */
    struct sim_letter *free;
    struct sim_letters_block *blocks;
};

struct sim_letter *sim_letter_take(struct sim_letters *l, struct err *e); /* NULL: no memory */
void sim_letter_put(struct sim_letters *l, struct sim_letter *letter);    /* and its reference */
void sim_letters_clear(struct sim_letters *l);                            /* wherever they are */

#endif
