/* node_orders -- what the launcher, process 0 and job_submit order a node of a job folder while it runs: by
 * SIGTERM or a file of the meeting to end, by SIGUSR1 or a file to write a checkpoint. */
#ifndef PSGD_NODE_ORDERS_H
#define PSGD_NODE_ORDERS_H

#include "agent/folder/node_process.h"

/* Takes the signals, as events of the loop. ERR_IO. */
int node_orders_open(struct node_process *f, struct err *e);
/* Passes on what was ordered; call again and again. */
void node_orders_follow(struct node_process *f);
/* Seconds from SIGTERM to SIGKILL of the runner: a job with checkpoints writes one before its end. */
double node_orders_grace(const struct node_process *f);

#endif
