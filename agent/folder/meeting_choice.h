/* meeting_choice -- what process 0 of a job folder decides from the hellos of all: the plan of meeting.h. */
#ifndef PSGD_MEETING_CHOICE_H
#define PSGD_MEETING_CHOICE_H

#include "agent/folder/meeting_member.h"

/* Sets the host at which each node is reached, the same one for all of one machine. */
void meeting_choose_hosts(struct meeting *m);
/* Sets the latest point of which all nodes have checkpoints, if there is one. */
void meeting_choose_resume(struct meeting *m);
/* Sets the number of this attempt, the next one of all nodes. */
void meeting_choose_attempt(struct meeting *m);
/* Whether the last attempt has succeeded, in all nodes. */
bool meeting_has_succeeded(const struct meeting *m);

#endif
