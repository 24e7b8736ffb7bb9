/* folder_state -- the state of a node of a job folder, in node.json, where job_submit reads it. */
#ifndef PSGD_FOLDER_STATE_H
#define PSGD_FOLDER_STATE_H

#include "agent/folder/node_process.h"

/* Writes that the node waits, with a message. Its new attempt has no state yet: the rest of the document is
 * of the last attempt. No effect if that has succeeded, as then the job has, unless another node's has
 * not. */
void folder_state_wait(struct node_process *f, const char *message);
/* There will be no new attempt now: writes the state of the last one again; without a last one, the
 * message. */
void folder_state_restore(struct node_process *f, const char *message);
/* Writes the job's state: a new one at once, other changes of the document at most once a second, and without
 * changes every JOB_FOLDER_BEAT_S, by which readers see that the process is alive. */
void folder_state_write(struct node_process *f);
/* A new attempt: links node-K/run to its files, where a user looks for them, and writes into its folder from
 * where it goes on, because its process may be killed. */
void folder_state_begin(struct node_process *f);
/* Writes the state of an earlier attempt, which has ended, into its folder, unless its process has. */
void folder_state_write_ended(struct node_process *f, const struct task *t);

#endif
