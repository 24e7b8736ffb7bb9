/* queue -- events of a simulation, by time. The seed determines the order of events with the same time: no
 * rule may depend on it, and another seed tries another order. */
#ifndef PSGD_SIM_QUEUE_H
#define PSGD_SIM_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shared/base/err.h"
#include "shared/base/rng.h"

struct sim_message;

enum sim_what {
    SIM_WAKE,    /* the node has finished its work */
    SIM_TIMER,   /* its codec's timer expires */
    SIM_ARRIVE,  /* a message's first byte is at its receiver's link */
    SIM_DELIVER, /* its last byte is */
    SIM_KILL,    /* the node is killed */
    SIM_PART     /* two nodes were disconnected for too long */
};

struct sim_event {
    double at; /* seconds */
    uint64_t order;
    enum sim_what what;
    int slot; /* the node, by slot */
    union {
        int other;                   /* SIM_PART: the other node */
        struct sim_message *message; /* SIM_ARRIVE, SIM_DELIVER */
    };
};

struct sim_queue {
    struct sim_event *heap; /* each is due before its four children */
    size_t n, room;
    double now; /* time of the last event taken */
    uint32_t n_pushed;
    struct rng rng;
};

void sim_queue_init(struct sim_queue *q, uint64_t seed);
void sim_queue_clear(struct sim_queue *q);
/* Sets ev.order. ERR_NOMEM. */
int sim_queue_push(struct sim_queue *q, struct sim_event ev, struct err *e);
bool sim_queue_pop(struct sim_queue *q, struct sim_event *out); /* false: no events */

#endif
