/* node_address -- the addresses of a node of a job folder: at which the others reach it, and at which it
 * listens. */
#ifndef PSGD_NODE_ADDRESS_H
#define PSGD_NODE_ADDRESS_H

#include "agent/folder/node_process.h"

enum { NODE_ADDRESS = 64 };

/* The first IPv4 address of this machine that is not loopback, else IPv6; "": it has none. */
void node_address_own(char out[NODE_ADDRESS]);
/* Sets the address at which the node listens, from the host at which the plan says that it is reached. */
int node_address_listen(struct node_process *f, struct err *e);

#endif
