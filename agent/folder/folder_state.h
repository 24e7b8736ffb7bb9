/* folder_state -- the state of a node of a job folder, in node.json, where job_submit reads it. */
#ifndef PSGD_FOLDER_STATE_H
#define PSGD_FOLDER_STATE_H

#include "agent/folder/node_process.h"

/* Before this attempt is reserved, the node's last attempt is still the one that job_submit reads; no effect
 * if it has succeeded, as then has the job, unless another node says otherwise. */
void folder_state_wait(struct node_process *f, const char *message);
/* Writes the state of the node's last attempt again, as there will be no further one now; of a node without
 * one the message. */
void folder_state_restore(struct node_process *f, const char *message);
/* Writes the state if it has changed, at most once a second unless it is another one, and at least every
 * JOB_FOLDER_BEAT_S, so that the process counts as alive. */
void folder_state_write(struct node_process *f);
/* Writes the state of an earlier attempt, which has ended, into its folder. */
void folder_state_write_ended(struct node_process *f, const struct task *t);
/* Links run/, for a person, to the files of the latest attempt. */
void folder_state_link(const struct node_process *f);

#endif
