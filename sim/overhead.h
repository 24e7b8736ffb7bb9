/* overhead -- measures the processor time of a message at its sender and its receiver (LogP's `o`: Culler
 * et al., PPoPP 1993) on this machine: a checksum and a copy into the kernel, a copy out of it and a
 * checksum, over TCP connections through loopback. */
#ifndef PSGD_SIM_OVERHEAD_H
#define PSGD_SIM_OVERHEAD_H

#include <stddef.h>

#include "shared/base/err.h"

struct sim_wire { /* to the next process of a ring, and from the previous one; a ring of one: to itself */
    int out, in;
};
#define SIM_NO_WIRE ((struct sim_wire){-1, -1})

/* Opens the wires of `n` processes, to be forked later. ERR_IO: this machine has no loopback. */
int sim_ring_open(struct sim_wire *wires, int n, struct err *e);
void sim_wire_close(struct sim_wire *w);
/* Sends `len` bytes from `from`, receives as many into `to`, and sets *seconds to the time of both. All
 * processes of the ring must do the same. ERR_IO: also if a neighbor has ended. */
int sim_wire_exchange(const struct sim_wire *w, const void *from, void *to, size_t len, double *seconds,
                      struct err *e);

#endif
