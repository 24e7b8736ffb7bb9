/* folder_lead -- what process 0 of a job folder does besides running its node: what job_submit does for a
 * job on agents. When the job has failed it has the other nodes end, and it stays until they have. */
#ifndef PSGD_FOLDER_LEAD_H
#define PSGD_FOLDER_LEAD_H

#include "agent/folder/node_process.h"

/* Call again and again; it does what is due. No effect in another process. */
void folder_lead(struct node_process *f);
/* Notes the end of the own node. */
void folder_lead_take_own(struct node_process *f);
/* Waits until the others have ended, so that the exit status of process 0 is that of the job; if the launcher
 * ends it, only as long as it takes to see which other process was killed. */
void folder_lead_await(struct node_process *f);
/* How many nodes have not ended. */
int folder_lead_running(const struct node_process *f);
/* The process whose node's end is the likeliest cause of the job's; -1: none has failed. */
int folder_lead_cause(struct node_process *f);

#endif
