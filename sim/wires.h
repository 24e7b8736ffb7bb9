/* wires -- arrival times of messages. Every node, or machine of several workers, has one link, which
 * transfers its messages one after the other at its rate: sent ones on the way out, received ones on the way
 * in, in order of arrival. A message from A to B starts when A's earlier ones have left; its first byte
 * arrives at B's end after the latency (the mean of both links') and a random jitter, its last one after it
 * has left and B's link has had time for it. Messages inside a machine take no time. Messages from one sender
 * to one receiver stay in order. A cut delays messages between two nodes; after SIM_CUT_LOST_S they are lost
 * to each other, as in the real mesh. */
#ifndef PSGD_SIM_WIRES_H
#define PSGD_SIM_WIRES_H

#include "shared/job/simulation.h"
#include "sim/mesh_sim.h"
#include "sim/queue.h"

/* Detection times of runner/mesh/tcp/tcp_open.c: connections to an ended process are refused, those
 * across a cut time out. */
#define SIM_DEATH_S    0.5
#define SIM_CUT_LOST_S 9.5

struct sim_wires;

/* machines (n_workers): for each worker the first one on its machine. It is not copied, nor is `cuts`. Events
 * go to `queue`. */
int sim_wires_new(struct sim_wires **out, int n_workers, int n_servers, const int *machines,
                  const struct sim_link *worker, const struct sim_link *server, const struct sim_cuts *cuts,
                  struct sim_queue *queue, uint64_t seed, struct err *e);
void sim_wires_free(struct sim_wires *w);

/* Sends a message at `now`. */
int sim_wires_carry(struct sim_wires *w, struct sim_message *m, double now, struct err *e);
/* Handles SIM_ARRIVE: the message queues for its receiver's link. */
int sim_wires_arrive(struct sim_wires *w, struct sim_message *m, struct err *e);
/* Handles SIM_DELIVER: removes the message from the wires. */
int sim_wires_end(struct sim_wires *w, struct sim_message *m, struct err *e);

#endif
