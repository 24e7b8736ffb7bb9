/* retention -- which ended jobs an agent keeps: as many as --keep says, for --keep-days, and of --keep-gib.
 * Those that ended first go first; a job that has not ended stays. Their names stay known (forgotten.h). */
#ifndef PSGD_KEEP_H
#define PSGD_KEEP_H

#include "agent/agent.h"

/* Removes what is beyond the limits. Call it in every turn of the loop: it costs little where nothing is. */
void keep_trim(struct agent *a);

#endif
