/* overhead -- what a message takes the processors of who sends it and who hears it (LogP's `o`: Culler et
 * al., PPoPP 1993), measured on this machine: two checksums and a copy into the kernel and out of it, over a
 * TCP connection of this process with itself. */
#ifndef PSGD_SIM_OVERHEAD_H
#define PSGD_SIM_OVERHEAD_H

#include <stddef.h>

#include "shared/err.h"

struct sim_self { /* a connection's two ends; {-1, -1}: there is none */
    int out, in;
};

/* ERR_IO: this machine has no loopback. */
int sim_self_open(struct sim_self *s, struct err *e);
void sim_self_close(struct sim_self *s);
/* `len` bytes go from `from` to `to`, as a message does, and *seconds is what both ends together take.
 * ERR_IO. */
int sim_self_send(const struct sim_self *s, const void *from, void *to, size_t len, double *seconds,
                  struct err *e);

#endif
