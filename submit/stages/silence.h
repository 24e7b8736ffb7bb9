/* silence -- keeps a node's stream of events open. If an agent stops answering (its stream breaks, or
 * carries no data and a probe is not answered), the stream is reopened repeatedly for --agent-timeout
 * seconds, and a message names the agent and the deadline. */
#ifndef PSGD_SUBMIT_SILENCE_H
#define PSGD_SUBMIT_SILENCE_H

#include "submit/job/submission.h"

/* Records that the agent did not answer, with the error `why`; silence_look then retries. is_reported:
 * print the message now. A broken stream is first reopened without a message; if that fails, the message
 * has the error of the second attempt. */
void silence_begin(struct submission *s, struct job_node *n, const struct err *why, bool is_reported);

/* Call often; does not block. n->silent_since > 0 while the agent is silent. If a stream ends without the
 * job's end, the job's state is requested. ERR_NOT_FOUND: the agent no longer has the job. ERR_UNREACHABLE:
 * for --agent-timeout the agent has been silent, has ended streams without an event, or (then n->unwritten_at
 * > 0) has not been able to write the job's end. */
int silence_look(struct submission *s, struct job_node *n, struct err *e);

/* Ends the node without its agent: as lost, with `why` as the message. An agent that answers is not lost,
 * even if it cannot write the job's end (n->unwritten_at > 0): the node then has that reason, and results to
 * fetch. */
void silence_lose(struct submission *s, struct job_node *n, const struct err *why);

/* Calls silence_look(), and ends a node on its error: with the reason JournalFailed if the agent answers but
 * cannot write the end, else NodeLost. */
void silence_follow(struct submission *s, struct job_node *n);

/* After a request that failed with `why` before the job was started: an agent refuses requests for a node
 * that has just ended. Waits a few seconds for the end of any node. Returns 0 once a node has ended, else the
 * code of `why`. */
int silence_await_end(struct submission *s, const struct err *why);

#endif
