/* fault_proxy -- a TCP proxy on this machine, in its own thread, that injects network faults. When each
 * fault occurs depends only on the seed and the number of bytes. */
#ifndef PSGD_FAULT_PROXY_H
#define PSGD_FAULT_PROXY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum fault {
    FAULT_FLIP,       /* one bit flips; no second one before the first can be detected */
    FAULT_REPEAT,     /* bytes are duplicated */
    FAULT_CUT,        /* all connections are closed */
    FAULT_RESET,      /* one connection is reset at both ends */
    FAULT_HALF_CLOSE, /* one direction of a connection is closed */
    N_FAULTS
};

struct fault_plan {           /* all zero: no faults */
    uint64_t every[N_FAULTS]; /* average number of bytes between faults of a kind; 0: never */
    bool one_byte_reads;      /* reads one byte at a time */
    double delay, jitter;     /* delay in seconds; maximum of the random extra delay */
    double rate;              /* bytes per second in each direction; 0: unlimited */
    uint64_t seed;
};

enum { STALL_NONE = 0, STALL_FORWARD = 1, STALL_BACK = 2 };

struct fault_proxy {
    int port;              /* listening port */
    atomic_int stalls;     /* STALL_* bits: directions in which no bytes are forwarded */
    atomic_bool is_on;     /* faults occur only while set */
    atomic_int flip_in[2]; /* forward, back: flips a bit of the flip_in-th byte from now; 0: none */
    atomic_int n[N_FAULTS];
    atomic_int n_connections;
    atomic_bool was_suspended; /* for a second or more, because the machine did not schedule it */
    atomic_bool is_over;
    struct fault_plan plan;
    int to_port;
    void *thread;
};

/* Forwards connections from p->port to to_port, in both directions. Aborts the test on failure. */
void fault_proxy_open(struct fault_proxy *p, int to_port, const struct fault_plan *plan);
void fault_proxy_close(struct fault_proxy *p);

#endif
