/* silence -- keeps up a node's stream of events. An agent that falls silent (its stream breaks, or is without
 * news and a question is not answered) is called again and again for --agent-timeout seconds, and people are
 * told on whom is waited and until when. */
#ifndef PSGD_SUBMIT_SILENCE_H
#define PSGD_SUBMIT_SILENCE_H

#include "submit/stages/submission.h"

/* Its agent did not answer, and `why` says so: from now on silence_look calls it. Told: at once, in words; a
 * stream that merely broke is first opened again without any, and the sentence for people is that of the call
 * which fails then. */
void silence_begin(struct submission *s, struct node *n, const struct err *why, bool is_told);

/* To be called often; waits for nothing. n->silent_since says whether it is silent now. ERR_NOT_FOUND: its
 * agent does not know the job any more. ERR_UNREACHABLE: it has been silent for too long. */
int silence_look(struct submission *s, struct node *n, struct err *e);

#endif
