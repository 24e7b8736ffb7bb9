/* other_launch -- two launches at once in one job folder, as two batch scripts that name the same one: the
 * second is refused, and its processes take no node from the first. Launches are told apart by the names that
 * launchers give them (shared/job/launch_rank.h); without names, two processes of one node are refused by the
 * lock of its folder. */
#ifndef PSGD_OTHER_LAUNCH_H
#define PSGD_OTHER_LAUNCH_H

#include "agent/folder/node_process.h"

/* Before the folder of the node is locked: gives process 0 of another launch time to end. ERR_CONFLICT: it
 * still runs. No effect in process 0. */
int other_launch_await(struct node_process *f, struct err *e);
/* While this process waits for process 0. ERR_CONFLICT: one of another launch has come first. */
int other_launch_check(const struct node_process *f, struct err *e);

#endif
