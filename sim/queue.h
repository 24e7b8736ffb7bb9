/* queue -- what is going to happen in a simulation, by time. What is due at the same time comes in an
 * order that the seed decides: no rule may lean on it, and another seed tries another one. */
#ifndef PSGD_SIM_QUEUE_H
#define PSGD_SIM_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shared/err.h"
#include "shared/rng.h"

struct sim_message;

enum sim_what {
    SIM_WAKE,    /* the node has done what it was at */
    SIM_TIMER,   /* its codec wished to be woken */
    SIM_ARRIVE,  /* the letter's first byte is at its receiver's link */
    SIM_DELIVER, /* and its last one */
    SIM_KILL,    /* the node dies */
    SIM_PART     /* two nodes have not reached each other for too long */
};

struct sim_event {
    double at; /* seconds */
    uint64_t order;
    enum sim_what what;
    int slot; /* the node, by slot */
    union {
        int other;                   /* SIM_PART: the other one */
        struct sim_message *message; /* SIM_ARRIVE, SIM_DELIVER */
    };
};

struct sim_queue {
    struct sim_event *heap; /* each is due before its four children */
    size_t n, room;
    double now; /* when the last one that was taken was due */
    uint32_t n_pushed;
    struct rng rng;
};

void sim_queue_init(struct sim_queue *q, uint64_t seed);
void sim_queue_clear(struct sim_queue *q);
/* `order` is set here. ERR_NOMEM. */
int sim_queue_push(struct sim_queue *q, struct sim_event ev, struct err *e);
bool sim_queue_pop(struct sim_queue *q, struct sim_event *out); /* false: nothing is going to happen */

#endif
