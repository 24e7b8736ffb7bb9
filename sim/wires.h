/* wires -- when a letter is there. Every node has one link, whose rate its letters share one after the
 * other: those it sends on the way out, those it hears on the way in, as they come. A letter from A to B
 * begins to leave when A's earlier ones have left, its first byte is at B's end after the latency (the
 * mean of both links') and its share of the jitter, and its last one when it has left and B's link has had
 * the time for it. Between one sender and one receiver nothing is overtaken. While a cut parts two nodes
 * what they say waits; from CUT_LOST_S on they are lost to each other, as the real mesh has it. */
#ifndef PSGD_SIM_WIRES_H
#define PSGD_SIM_WIRES_H

#include "shared/simulation.h"
#include "sim/mesh_sim.h"
#include "sim/queue.h"

/* As agent/runner/mesh/tcp/tcp_open.c finds it out: nobody listens where a process is gone, nobody answers
 * behind a cut. */
#define SIM_DEATH_S    0.5
#define SIM_CUT_LOST_S 9.5

struct sim_wires;

/* `cuts` is borrowed. Events go to `queue`. */
int sim_wires_new(struct sim_wires **out, int n_workers, int n_servers, const struct sim_link *worker,
                  const struct sim_link *server, const struct sim_cuts *cuts, struct sim_queue *queue,
                  uint64_t seed, struct err *e);
void sim_wires_free(struct sim_wires *w);

/* A letter is handed over at `now`. */
int sim_wires_carry(struct sim_wires *w, struct sim_message *l, double now, struct err *e);
/* SIM_ARRIVE of one: it waits for its receiver's link. */
int sim_wires_arrive(struct sim_wires *w, struct sim_message *l, struct err *e);
/* SIM_DELIVER of one: it is off the wires. */
int sim_wires_end(struct sim_wires *w, struct sim_message *l, struct err *e);

#endif
