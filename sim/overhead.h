/* overhead -- what a message takes the processors of who sends it and who hears it (LogP's `o`: Culler et
 * al., PPoPP 1993), measured on this machine: a checksum and a copy into the kernel, a copy out of it and a
 * checksum, over TCP connections of this machine with itself. */
#ifndef PSGD_SIM_OVERHEAD_H
#define PSGD_SIM_OVERHEAD_H

#include <stddef.h>

#include "shared/err.h"

struct sim_wire { /* to the next process of a ring, and from the one before; of one: to itself */
    int out, in;
};
#define SIM_NO_WIRE ((struct sim_wire){-1, -1})

/* The wires of `n` processes that are to be forked. ERR_IO: this machine has no loopback. */
int sim_ring_open(struct sim_wire *wires, int n, struct err *e);
void sim_wire_close(struct sim_wire *w);
/* Sends `len` bytes from `from`, hears as many into `to`, and *seconds is what both together take. All
 * processes of the ring do the same. ERR_IO: also when a neighbour has ended. */
int sim_wire_exchange(const struct sim_wire *w, const void *from, void *to, size_t len, double *seconds,
                      struct err *e);

#endif
