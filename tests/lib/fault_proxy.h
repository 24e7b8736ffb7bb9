/* fault_proxy -- stands between two ends of TCP connections on this machine, in a thread of its own, and
 * does to their bytes what networks do. */
#ifndef PSGD_FAULT_PROXY_H
#define PSGD_FAULT_PROXY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct fault_plan {      /* zero: nothing happens */
    uint64_t flip_every; /* bytes, on average, between one flipped bit and the next */
    uint64_t cut_every;  /* bytes, on average, between one end of all connections and the next */
    bool drips;          /* one byte at a time */
    uint64_t seed;
};

enum { STALL_NONE = 0, STALL_THERE = 1, STALL_BACK = 2 };

struct fault_proxy {
    int port;          /* where it listens */
    atomic_int stalls; /* STALL_*: what is not passed on while set */
    atomic_int n_flipped, n_cut, n_connections;
    atomic_bool is_over;
    struct fault_plan plan;
    int to_port;
    void *thread;
};

/* Passes what comes to p->port on to to_port, and back. Ends the test on failure. */
void fault_proxy_open(struct fault_proxy *p, int to_port, const struct fault_plan *plan);
void fault_proxy_close(struct fault_proxy *p);

#endif
