/* agent_open -- opens an agent on its folder, chooses the limits of its jobs that no option gives, and
 * resumes the jobs that are there. */
#ifndef PSGD_AGENT_OPEN_H
#define PSGD_AGENT_OPEN_H

#include "agent/api/agent_state.h"

/* Takes the folder's lock, loads its id, tokens and key, and opens the blob store. *a is {0}: of its 650 KB,
 * tables that fill as jobs come, a start touches a tenth. It must not move afterwards. */
int agent_open(struct agent *a, const struct agent_options *opt, struct err *e);
void agent_close(struct agent *a); /* *a is not {0} afterwards */

/* Reads every job's journal, resumes the jobs that have not ended, and removes ended jobs beyond the
 * limits. ERR_NOMEM: a job could not be read. */
int agent_restore(struct agent *a, struct err *e);

/* Writes ADDRESS#PIN to the folder, for `agent token invite`, and prints an invitation if TLS is required. */
int agent_invite(struct agent *a, struct err *e);

#endif
