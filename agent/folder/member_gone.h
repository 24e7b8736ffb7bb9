/* member_gone -- whether another process of the job has ended without a word, as one that was killed: by the
 * lock of its node's folder, and where locks are not seen between machines, by its state, which it writes
 * again and again. */
#ifndef PSGD_MEMBER_GONE_H
#define PSGD_MEMBER_GONE_H

#include "agent/folder/node_process.h"

/* Notes whose locks can be seen from here; call when all processes have met, and so hold them. */
void member_gone_begin(struct node_process *f);
/* Whether process `r` has ended. `by_state`: it has begun to run, so that it counts as gone as well if it has
 * not written its state for JOB_FOLDER_GONE_S; the clocks of the machines may differ. */
bool member_is_gone(struct node_process *f, int r, bool by_state);
/* Of the processes for which the present step waits, one that is gone; -1: none. */
int member_gone_of_step(struct node_process *f);

#endif
