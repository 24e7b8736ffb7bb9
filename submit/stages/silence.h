/* silence -- keeps a node's stream of events open. If an agent stops answering (its stream breaks, or
 * carries no data and a probe is not answered), the stream is reopened repeatedly for --agent-timeout
 * seconds, and a message names the agent and the deadline. */
#ifndef PSGD_SUBMIT_SILENCE_H
#define PSGD_SUBMIT_SILENCE_H

#include "submit/job/submission.h"

/* Records that the agent did not answer, with the error `why`; silence_look then retries. is_reported:
 * print the message now. A stream that merely broke is first reopened without a message, and the error
 * reported is that of the failed retry. */
void silence_begin(struct submission *s, struct job_node *n, const struct err *why, bool is_reported);

/* Call often; does not block. n->silent_since > 0 while the agent is silent. A stream that ends without the
 * job's end makes it ask for the job's state. ERR_NOT_FOUND: the agent no longer knows the job.
 * ERR_UNREACHABLE: for --agent-timeout it has been silent, has ended streams without an event, or (then
 * n->unwritten_at > 0) has not been able to write the job's end. */
int silence_look(struct submission *s, struct job_node *n, struct err *e);

/* Marks the node as lost with its agent, which `why` says. */
void silence_lose(struct submission *s, struct job_node *n, const struct err *why);

/* silence_look; a node that it reports as lost has then ended, with the reason NodeLost, or JournalFailed if
 * its agent answers and cannot write the end. */
void silence_follow(struct submission *s, struct job_node *n);

/* After a request that failed with `why` before the job was started: an agent refuses what does not fit the
 * state of a node that has just ended. Waits a few seconds for the end of any node. Returns 0 once there is
 * one, else the code of `why`. */
int silence_await_end(struct submission *s, const struct err *why);

#endif
