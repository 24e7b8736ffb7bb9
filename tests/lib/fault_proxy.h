/* fault_proxy -- stands between two ends of TCP connections on this machine, in a thread of its own, and
 * does to their bytes what networks do. What happens when is a function of the seed and of the bytes. */
#ifndef PSGD_FAULT_PROXY_H
#define PSGD_FAULT_PROXY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum fault {
    FAULT_FLIP,       /* one bit is another; no second one before the first can be noticed */
    FAULT_REPEAT,     /* bytes come twice */
    FAULT_CUT,        /* all connections end */
    FAULT_RESET,      /* one connection ends with a reset to both ends */
    FAULT_HALF_CLOSE, /* one direction of a connection ends, the other does not */
    N_FAULTS
};

struct fault_plan {           /* zero: nothing happens */
    uint64_t every[N_FAULTS]; /* bytes, on average, between one fault of a kind and the next; 0: never */
    bool drips;               /* one byte at a time */
    double delay, jitter;     /* seconds that bytes take, and how many more at most */
    double rate;              /* bytes a second that are read in each direction; 0: all that come */
    uint64_t seed;
};

enum { STALL_NONE = 0, STALL_THERE = 1, STALL_BACK = 2 };

struct fault_proxy {
    int port;              /* where it listens */
    atomic_int stalls;     /* STALL_*: what is not passed on while set */
    atomic_bool is_on;     /* faults happen only while set */
    atomic_int flip_in[2]; /* there, back: a bit of the byte that comes as number so many; 0: none */
    atomic_int n[N_FAULTS];
    atomic_int n_connections;
    atomic_bool has_paused; /* for a second or more, as the machine had no turn for it */
    atomic_bool is_over;
    struct fault_plan plan;
    int to_port;
    void *thread;
};

/* Passes what comes to p->port on to to_port, and back. Ends the test on failure. */
void fault_proxy_open(struct fault_proxy *p, int to_port, const struct fault_plan *plan);
void fault_proxy_close(struct fault_proxy *p);

#endif
